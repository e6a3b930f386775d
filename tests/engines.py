"""Every engine, made fresh for a test. A new engine is one more line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from stoker.store import Store
from stoker.store.clock import Clock
from stoker.store.memory import MemoryStore
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.driver import Sync

START = 1_700_000_000_000_000
SECOND = 1_000_000


class VirtualClock:
    """Time that passes only when told to."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


@contextmanager
def memory(clock: Clock) -> Iterator[Store]:
    yield MemoryStore(clock)


@contextmanager
def sqlite(clock: Clock) -> Iterator[Store]:
    with TemporaryDirectory() as folder:
        # What a power cut leaves is tested on its own; here only the meaning counts.
        store = SqliteStore(Path(folder) / "jobs.db", sync=Sync.NORMAL, clock=clock)
        try:
            yield store
        finally:
            store.close()


ENGINES: dict[str, Callable[[Clock], AbstractContextManager[Store]]] = {
    "memory": memory,
    "sqlite": sqlite,
}
