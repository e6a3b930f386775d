"""Stores that processes can share, each a URL of a place of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.servers import postgres, valkey
from tests.servers.proxy import HOST, Proxy, proxy_before


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


class Place(NamedTuple):
    """A store with two ways to it: one always leads there, on the other lies a proxy."""

    url: str
    behind: str
    """Of whoever comes that way little patience is asked."""
    proxy: Proxy


@contextmanager
def _redis_behind(folder: Path) -> Iterator[Place]:
    server = valkey.default_server()
    with valkey.prefix(server) as prefix, proxy_before(server.socket, folder) as proxy:
        yield Place(server.url(prefix), f"{proxy.url(prefix)}&patience=1", proxy)


@contextmanager
def _postgres_behind(folder: Path) -> Iterator[Place]:
    server = postgres.shared(next(iter(postgres.binaries())))
    with (
        closing(postgres.Stores(server.url())) as stores,
        stores.schema() as url,
        proxy_before(server.socket, folder, by_port=True) as proxy,
    ):
        schema = url.rpartition("=")[2]
        behind = f"postgresql://postgres@{HOST}:{proxy.port}/postgres?schema={schema}"
        yield Place(url, f"{behind}&patience=1", proxy)


BEHIND_A_PROXY: dict[str, Callable[[Path], AbstractContextManager[Place]]] = {
    "redis": _redis_behind,
    "postgres": _postgres_behind,
}
