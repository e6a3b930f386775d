"""Connections of Django's, as a site has them that knows its databases by name."""

from __future__ import annotations

from typing import Any

import django  # type: ignore[import-untyped]
import django.conf  # type: ignore[import-untyped]
import django.db.transaction  # type: ignore[import-untyped]

django.conf.settings.configure(USE_TZ=True)
django.setup()


def connection_to(name: str, engine: str, **facts: str) -> Any:
    """The one by this name, to a database of an engine."""
    site = {"default": {"ENGINE": f"django.db.backends.{engine}", **facts}}
    known = django.db.connections.configure_settings(site)["default"]
    django.db.connections.databases[name] = known
    return django.utils.connection.ConnectionProxy(django.db.connections, name)


def atomic(connection: Any) -> Any:
    """Its transaction, or a savepoint within one."""
    return django.db.transaction.atomic(using=connection.alias)
