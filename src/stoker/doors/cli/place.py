"""Where the jobs are: from --store, --app and the environment to an open desk.

The library is imported only if an app is named: looking at a store needs none of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from stoker.desk import Desk
from stoker.errors import BadInput, StokerError, StoreUnavailable
from stoker.store.open import DEFAULT_STORE, is_private, is_there, open_store
from stoker.store.urls import shown

if TYPE_CHECKING:
    from stoker.client import Stoker


class Place:
    """A store by its URL, and the app that was named, if one was."""

    def __init__(self, url: str, app: Stoker | None = None) -> None:
        self.url = url
        self.app = app

    @property
    def shown(self) -> str:
        """The store as it may be told to anybody."""
        return shown(self.url)

    @cached_property
    def desk(self) -> Desk:
        """The use cases; opens the store."""
        return Desk(open_store(self.url)) if self.app is None else self.app.desk

    def task_names(self) -> set[str]:
        """The tasks that are known here; none at all without an app."""
        return set() if self.app is None else {task.name for task in self.app.tasks}

    def stoker(self) -> Stoker:
        """The app, or one without tasks."""
        from stoker.client import Stoker

        if self.app is not None:
            return self.app
        bare = Stoker(self.url)
        bare.sit_at(self.desk)
        return bare

    def close(self) -> None:
        """Let go of the store."""
        if self.app is not None:
            self.app.close()
        elif "desk" in self.__dict__:  # it was opened
            self.desk.store.close()


@contextmanager
def opened(
    store: str | None, app_ref: str | None, *, make: bool = False, private: bool = False
) -> Iterator[Place]:
    """The place that is meant; closed in the end."""
    place = chosen(store, app_ref)
    if not private:
        check_shared(place.url)
    if not (make or private or is_there(place.url)):
        raise StoreUnavailable(
            f"there is no store at {place.shown} (yet); check the URL, or make it with "
            "`stoker migrate`"
        )
    try:
        yield place
    finally:
        place.close()


def check_shared(url: str) -> None:
    """Refuse a store that would end with this command."""
    if is_private(url):
        raise BadInput(
            "memory: is inside one process, the command line cannot see it; use a file, as in "
            "sqlite:///jobs.db"
        )


def chosen(store: str | None, app_ref: str | None) -> Place:
    """The store that is named, or that of the app that is named.

    What is said on the command line wins over the environment, and --store over the app's own.
    """
    if app_ref is not None:
        app = load(app_ref)
        if store is not None:
            app.close()
            app.url = store
        return Place(app.url, app)
    if store == "":
        raise BadInput("--store is empty; give a URL such as sqlite:///jobs.db, or leave it out")
    named = store or os.environ.get("STOKER_STORE")
    if not named and not is_there(DEFAULT_STORE):
        raise BadInput(
            "no store was named: say --store sqlite:///jobs.db or --app module:app, or set "
            "STOKER_STORE"
        )
    return Place(named or DEFAULT_STORE)


def load(app_ref: str) -> Stoker:
    """The app that `module:name` names. Whatever its module does wrong is told in one line."""
    from stoker.fleet.load import load_app

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
