"""Every engine, made fresh for a test. A new engine is one more line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from stoker.store import Store
from stoker.store.clock import Clock
from stoker.store.memory import MemoryStore
from stoker.store.redis import RedisStore
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.driver import Sync
from tests.servers import functions, valkey
from tests.servers import postgres as postgres_server

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
def sqlite(clock: Clock, library: str = "apsw") -> Iterator[Store]:
    with TemporaryDirectory() as folder:
        # What a power cut leaves is tested on its own; here only the meaning counts.
        file = Path(folder) / "jobs.db"
        store = SqliteStore(file, sync=Sync.NORMAL, clock=clock, library=library)
        try:
            yield store
        finally:
            store.close()


@contextmanager
def redis(clock: Clock, program: str = "valkey") -> Iterator[Store]:
    server = valkey.default_server(program)
    with valkey.prefix(server) as prefix:
        store = RedisStore(server.url(prefix), clock=clock)
        try:
            yield store
        finally:
            store.close()


@contextmanager
def redis_walking(clock: Clock) -> Iterator[Store]:
    with functions.walking(), redis(clock) as store:
        yield store


@contextmanager
def redis_in_short_rows(clock: Clock) -> Iterator[Store]:
    with functions.in_short_rows(), redis(clock) as store:
        yield store


@contextmanager
def postgres(clock: Clock) -> Iterator[Store]:
    with postgres_server.stores().store(clock) as store:
        yield store


Engines = dict[str, Callable[[Clock], AbstractContextManager[Store]]]

ENGINES: Engines = {
    "memory": memory,
    "postgres": postgres,
    "redis": redis,
    "sqlite": sqlite,
}
if "redis" in valkey.programs():
    ENGINES["redis-debian"] = partial(redis, program="redis")

OTHER_WAYS: Engines = {
    "redis-in-short-rows": redis_in_short_rows,
    "redis-walking": redis_walking,
}
"""The same engine, choosing jobs by the longer of two ways."""

ENGINES_AND_LIBRARIES: Engines = {
    **ENGINES,
    **OTHER_WAYS,
    "sqlite-of-python": partial(sqlite, library="sqlite3"),
}
"""Where it is worth the time: an engine also over another library than the one it is made for, or
by another way."""
