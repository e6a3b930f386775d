"""A store that remembers what it acknowledged, and what a file held when it was opened again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from stoker.store import Filter, Store
from stoker.store.clock import Clock
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.driver import Sync
from stoker.store.sqlite.library import Connection
from tests.model.sqlite_books import assert_books_balance

T = TypeVar("T")
Contents = tuple[object, ...]
"""All that can be seen of a store's jobs, queues and sessions."""


def contents(store: Store) -> Contents:
    return store.find(Filter(limit=100_000)), store.survey(), store.sessions()


class Witness(SqliteStore):
    """Tells after each commit what the store holds from then on: the caller knows it by the
    acknowledgement, all others by looking. After one that failed it is what it was before."""

    def __init__(self, path: Path, acknowledge: Callable[[Contents], None], **how: Any) -> None:
        super().__init__(path, **how)
        self._acknowledge = acknowledge
        acknowledge(contents(self))

    def _write(self, act: Callable[[Connection], T]) -> T:
        try:
            return super()._write(act)
        finally:
            self._acknowledge(contents(self))


def contents_found(path: Path, clock: Clock) -> Contents:
    """What a file holds for those who open it, its books being checked by the way."""
    store = SqliteStore(path, sync=Sync.NORMAL, clock=clock)
    found = contents(store)
    assert_books_balance(store.path)
    store.close()
    return found
