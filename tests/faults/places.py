"""Stores that processes can share, each a URL of a place of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.servers import postgres, valkey


@contextmanager
def _sqlite(folder: Path) -> Iterator[str]:
    yield f"sqlite:///{folder / 'jobs.db'}"


@contextmanager
def _redis(_: Path) -> Iterator[str]:
    server = valkey.default_server()
    with valkey.prefix(server) as prefix:
        yield server.url(prefix)


@contextmanager
def _postgres(_: Path) -> Iterator[str]:
    with postgres.stores().schema() as url:
        yield url


SHARED: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "sqlite": _sqlite,
    "redis": _redis,
    "postgres": _postgres,
}
