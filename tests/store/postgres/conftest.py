"""A PostgreSQL store of its own for every test here, on each server there is."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from stoker.store.postgres import PostgresStore
from tests.engines import VirtualClock
from tests.servers.postgres import Server, Stores, binaries, shared


@pytest.fixture(params=sorted(binaries()))
def server(request: pytest.FixtureRequest) -> Server:
    """A server that tests may use, and must not harm."""
    return shared(request.param)


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    """Where a store may be made, and is not yet."""
    stores = Stores(server.url())
    with stores.schema() as url:
        yield url
    stores.close()


@pytest.fixture
def store(url: str, clock: VirtualClock) -> Iterator[PostgresStore]:
    store = PostgresStore(url, clock=clock)
    yield store
    store.close()


@pytest.fixture
def connection(server: Server) -> Iterator[psycopg.Connection]:
    """A connection of somebody else."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        yield connection


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server of one's own, to be stopped and killed. It keeps its promises."""
    server = Server(next(iter(binaries().values())), settings=())
    yield server
    server.remove()
