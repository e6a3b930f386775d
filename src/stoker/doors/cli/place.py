"""Where the jobs are: from --store, --app and the environment to an open Stoker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from stoker.client import Stoker
from stoker.client.app import DEFAULT_STORE
from stoker.errors import BadInput, StokerError, StoreUnavailable
from stoker.fleet.load import load_app
from stoker.store.open import is_there

_PRIVATE = "memory:"


@contextmanager
def opened(
    store: str | None, app_ref: str | None, *, make: bool = False, private: bool = False
) -> Iterator[Stoker]:
    """The app that is meant, with its store; closed in the end."""
    app = chosen(store, app_ref)
    if not private and app.url == _PRIVATE:
        raise BadInput(
            "memory: is inside one process, the command line cannot see it; use a file, as in "
            "--store sqlite:///jobs.db"
        )
    if not (make or private or is_there(app.url)):
        raise StoreUnavailable(
            f"there is no store at {app.url} (yet); check the URL, or make it with `stoker migrate`"
        )
    try:
        yield app
    finally:
        app.close()


def chosen(store: str | None, app_ref: str | None) -> Stoker:
    """The app that is named, or one without tasks for the store that is named.

    What is said on the command line wins over the environment, and --store over the app's own.
    """
    if app_ref is not None:
        app = load(app_ref)
        if store is not None:
            app.close()
            app.url = store
        return app
    if store is None and not os.environ.get("STOKER_STORE") and not is_there(DEFAULT_STORE):
        raise BadInput(
            "no store was named: say --store sqlite:///jobs.db or --app module:app, or set "
            "STOKER_STORE"
        )
    return Stoker(store)


def load(app_ref: str) -> Stoker:
    """The app that `module:name` names. Whatever its module does wrong is told in one line."""
    try:
        return load_app(app_ref)
    except StokerError:
        raise
    except Exception as error:
        module = app_ref.partition(":")[0]
        raise StokerError(
            f"importing {module} failed: {type(error).__name__}: {error}; "
            "STOKER_DEBUG=1 shows where"
        ) from error
