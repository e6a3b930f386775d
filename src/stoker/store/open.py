"""From a URL to a store that works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from stoker.errors import BadInput, StoreUnfit
from stoker.store import Store
from stoker.store.memory import MemoryStore
from stoker.store.urls import options_of, shown, split

DEFAULT_STORE = "sqlite:///stoker.db"
"""The store of those who name none."""


def open_store(url: str) -> Store:
    """The store a URL names.

    >>> open_store("memory:").survey()
    []

    `sqlite:///jobs.db` is a file in the working directory, `sqlite:////var/lib/jobs.db` one
    anywhere. `?sync=normal` trades the last moments before a power cut for speed;
    `?library=sqlite3` uses the SQLite library of Python's own `sqlite3`, not that of apsw.
    `postgresql://user@host/database` is a PostgreSQL server; the jobs are in its schema `stoker`,
    or in another with `?schema=name`.
    `redis://host:6379/0` is a Redis or Valkey server, `redis+sentinel://host/service` one that
    Sentinels look after, `redis+cluster://host` a Cluster.
    """
    engine, path, options = _read(url)
    with _driver_at_hand(url):
        return engine.open(url, path, options)


def is_there(url: str) -> bool:
    """Whether the store a URL names was made already, and can be seen from this process.

    >>> is_there("memory:")
    False
    """
    engine, path, _ = _read(url)
    with _driver_at_hand(url):
        return engine.is_there(path)


def is_private(url: str) -> bool:
    """Whether the store a URL names is inside this process, and ends with it.

    >>> is_private("memory:"), is_private("sqlite:///jobs.db")
    (True, False)
    """
    engine, _, _ = _read(url)
    return engine.private


_DRIVERS = {"apsw": "sqlite", "psycopg": "postgres", "redis": "redis", "hiredis": "redis"}
"""Package -> the extra that brings it."""


@contextmanager
def _driver_at_hand(url: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name not in _DRIVERS:
            raise
        extra = _DRIVERS[missing.name]
        raise StoreUnfit(
            f"{shown(url)} needs {missing.name}; install it with: pip install 'stoker[{extra}]'"
        ) from missing
    except ImportError as broken:  # psycopg that lacks the library it stands on
        raise StoreUnfit(f"the driver of {shown(url)} cannot be used: {broken}") from broken


def _read(url: str) -> tuple[_Engine, str, dict[str, str]]:
    parts = split(url)
    engine = _ENGINES.get(parts.scheme)
    if engine is None:
        known = ", ".join(f"{scheme}:" for scheme in _ENGINES)
        hint = "" if parts.scheme else f"; if it is a file, write sqlite:///{url}"
        raise BadInput(
            f"no store is called {shown(url)!r}; a store's URL begins with one of {known}{hint}"
        )
    options = options_of(url)
    if engine.hosted:
        return engine, url, {}
    path = unquote(parts.path)
    if parts.netloc:
        raise BadInput(
            f"{url!r} names a host, but {parts.scheme}: is on this machine; "
            f"write {parts.scheme}:///{parts.netloc}{path}"
        )
    return engine, path, options


def _open_memory(url: str, path: str, options: dict[str, str]) -> Store:
    if path or options:
        raise BadInput(f"{url!r} says too much: the memory store is just memory:")
    return MemoryStore()


def _open_sqlite(url: str, path: str, options: dict[str, str]) -> Store:
    # Imported here, so that an engine's driver is needed only by those who use the engine.
    from stoker.store.sqlite import SqliteStore  # noqa: PLC0415
    from stoker.store.sqlite.driver import Sync  # noqa: PLC0415
    from stoker.store.sqlite.library import NAMES  # noqa: PLC0415

    file = _file(path)
    sync = options.pop("sync", "full")
    library = options.pop("library", None)
    if (
        not file
        or "\0" in file
        or options
        or sync not in ("full", "normal")
        or library not in (None, *NAMES)
    ):
        raise BadInput(
            f"cannot read {url!r}; write sqlite:///jobs.db, with ?sync=full or ?sync=normal "
            "behind it if you like, and ?library=apsw or ?library=sqlite3"
        )
    return SqliteStore(file, sync=Sync(sync), library=library)


def _open_postgres(url: str, _path: str, _options: dict[str, str]) -> Store:
    from stoker.store.postgres import PostgresStore  # noqa: PLC0415

    return PostgresStore(url)


def _is_postgres_there(url: str) -> bool:
    from stoker.store.postgres import is_there  # noqa: PLC0415

    return is_there(url)


def _open_redis(url: str, _path: str, _options: dict[str, str]) -> Store:
    from stoker.store.redis import RedisStore  # noqa: PLC0415

    return RedisStore(url)


def _is_redis_there(url: str) -> bool:
    from stoker.store.redis import is_there  # noqa: PLC0415

    return is_there(url)


def _file(path: str) -> str:
    return path[1:] if path.startswith("/") else path


class _Engine(NamedTuple):
    """How to come to a store, and how to tell whether there is one."""

    open: Callable[[str, str, dict[str, str]], Store]
    is_there: Callable[[str], bool]
    hosted: bool = False
    """Somewhere else: its URL names a host, and is read by the engine itself."""
    private: bool = False
    """In this process alone."""


_POSTGRES = _Engine(_open_postgres, _is_postgres_there, hosted=True)
_REDIS = _Engine(_open_redis, _is_redis_there, hosted=True)
_ENGINES = {
    "memory": _Engine(_open_memory, lambda _: False, private=True),
    "sqlite": _Engine(_open_sqlite, lambda path: Path(_file(path)).is_file()),
    **dict.fromkeys(("postgresql", "postgres"), _POSTGRES),
    **dict.fromkeys(("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel"), _REDIS),
    **dict.fromkeys(("redis+cluster", "rediss+cluster"), _REDIS),
}
