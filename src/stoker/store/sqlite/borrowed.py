"""Connections of others: which can be used, and whether they lead to the store's own file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stoker.errors import BadInput
from stoker.store.sqlite.driver import File
from stoker.store.sqlite.library import Lent, library_of


@contextmanager
def borrowed(connection: object, file: File) -> Iterator[Lent]:
    """The connection, for as long as we need it."""
    raw = _unwrapped(connection)
    _check_library(raw, file)
    with file.library.lent(raw) as lent:
        _check_file(lent, file)
        yield lent


def _unwrapped(connection: Any) -> object:
    """What one of SQLAlchemy's or Django's has inside."""
    if getattr(connection, "vendor", None) == "sqlite":
        if connection.connection is None:
            connection.ensure_connection()
        return connection.connection
    return _unwrapped_of_sqlalchemy(connection)


def _unwrapped_of_sqlalchemy(connection: Any) -> object:
    """Begun, since it does not see what is done there, and would not commit it."""
    modules = [base.__module__ for base in type(connection).__mro__]
    if not any(module.startswith("sqlalchemy.") for module in modules):
        return connection
    if any(module.startswith("sqlalchemy.ext.asyncio") for module in modules):
        raise BadInput("connections to SQLite that are awaited cannot be used here")
    if hasattr(connection, "driver_connection"):
        return connection.driver_connection
    core = connection.connection() if hasattr(connection, "get_bind") else connection
    if not core.in_transaction():
        core.begin()
    return core.connection.driver_connection


def _check_library(connection: object, file: File) -> None:
    found, ours = library_of(connection), file.library.name
    if found is None:
        raise BadInput(
            f"a {type(connection).__name__} is no connection that can be used here; it must be of "
            f"{ours}, or of SQLAlchemy or Django on it"
        )
    if found != ours:
        raise BadInput(
            f"a connection of {found} cannot be shared with the store, which uses {ours}: two "
            "SQLite libraries in one process drop each other's file locks, and commits would be "
            f"lost. Let the store use yours: add ?library={found} to its URL"
        )


def _check_file(lent: Lent, file: File) -> None:
    for _, name, path in lent.connection.execute("PRAGMA database_list").fetchall():
        if path and file.is_at(path):
            if name == "main":
                return
            raise BadInput(
                f"{file.path} is attached to this connection, and SQLite does not commit two "
                "files as one; keep your tables in the file of the store, and connect to that"
            )
    raise BadInput(f"this connection leads to another file; it has to be one to {file.path}")
