"""A server that tests share, and a prefix of its own for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.store.redis import RedisStore
from tests.engines import VirtualClock
from tests.servers import valkey
from tests.servers.proxy import Proxy, proxy_before
from tests.servers.valkey import Server


@pytest.fixture
def server() -> Server:
    return valkey.default_server()


@pytest.fixture
def prefix(server: Server) -> Iterator[str]:
    with valkey.prefix(server) as prefix:
        yield prefix


@pytest.fixture
def proxy(server: Server, tmp_path: Path) -> Iterator[Proxy]:
    with proxy_before(server.socket, tmp_path) as proxy:
        yield proxy


@pytest.fixture
def store(server: Server, prefix: str, clock: VirtualClock) -> Iterator[RedisStore]:
    store = RedisStore(server.url(prefix), clock=clock)
    yield store
    store.close()
