"""Calls that last: those at which the server is at work are left to it, all others are given up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from stoker.desk import Desk
from stoker.errors import BadInput, StoreUnavailable
from stoker.kernel.job import Job
from stoker.store.open import open_store
from stoker.store.postgres import PostgresStore, ear
from tests.servers.postgres import Server
from tests.servers.proxy import HOST, Proxy, proxy_before
from tests.store.postgres.proxy import Pooler, standing_between
from tests.worker.waiting import until

INQUIRY = b"pg_stat_activity"
Inquired = Callable[[], int]

LONG = 4
"""Seconds of patience where a busy machine shall not seem to be a hanging server."""


@pytest.fixture
def proxy(server: Server, tmp_path: Path) -> Iterator[Proxy]:
    with proxy_before(server.socket, tmp_path, by_port=True) as proxy:
        yield proxy


@pytest.fixture
def behind(url: str, proxy: Proxy) -> str:
    """The address of a store behind the proxy."""
    schema = url.rpartition("=")[2]
    return f"postgresql://postgres@{HOST}:{proxy.port}/postgres?schema={schema}"


@pytest.fixture
def held_up(behind: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(f"{behind}&patience=1")) as store:
        yield store


def inquiries(proxy: Proxy) -> int:
    return sum(INQUIRY in question for question in proxy.questions)


class Look(threading.Thread):
    """A call that somebody makes meanwhile."""

    def __init__(self, store: PostgresStore) -> None:
        super().__init__()
        self._store = store
        self.seen: list[object] | None = None

    def run(self) -> None:
        self.seen = [*self._store.survey()]


def outlasts(store: PostgresStore, connection: psycopg.Connection, inquired: Inquired) -> bool:
    """Does a call go through though somebody else holds what it needs, and it is inquired about?"""
    look = Look(store)
    with connection.transaction():
        connection.execute(f'LOCK TABLE "{store.address.schema}".queue')
        look.start()
        until(lambda: inquired() == 2)
        assert look.is_alive()
    look.join()
    return look.seen == []


def test_a_call_that_waits_for_somebody_else_is_left_to_the_server(
    behind: str, proxy: Proxy, connection: psycopg.Connection
) -> None:
    with closing(PostgresStore(f"{behind}&patience={LONG}")) as store:
        assert outlasts(store, connection, lambda: inquiries(proxy))


def test_the_same_behind_a_pooler_which_has_other_connections_than_we_know_of(
    url: str, server: Server, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    pooler, asked = Pooler(server.socket, size=3), list[bytes]()
    transact = pooler._transaction

    def note(client: socket.socket, letter: bytes, body: bytes) -> None:
        asked.append(body)
        transact(client, letter, body)

    monkeypatch.setattr(pooler, "_transaction", note)
    with standing_between(pooler.serve) as folder:
        way = url.replace(str(server.socket.parent), folder)
        with closing(PostgresStore(f"{way}&patience={LONG}&listen=no")) as store:
            assert outlasts(store, connection, lambda: sum(INQUIRY in each for each in asked))
    pooler.close()


def test_a_call_of_which_the_server_knows_nothing_is_given_up_and_so_are_its_kin(
    held_up: PostgresStore, proxy: Proxy
) -> None:
    desk = Desk(held_up)
    with held_up._pool.connection(), held_up._pool.connection():
        pass  # two that are idle
    proxy.strand_all()
    with pytest.raises(StoreUnavailable, match="the server knows nothing of this call"):
        desk.intake.enqueue(Job("q"))
    begun = inquiries(proxy)
    assert desk.intake.enqueue(Job("q")).id
    assert inquiries(proxy) == begun


def test_a_server_that_is_frozen_is_told(held_up: PostgresStore, proxy: Proxy) -> None:
    proxy.flowing.clear()
    with pytest.raises(StoreUnavailable, match=r"no answer for 1 s.*check the address"):
        held_up.survey()
    proxy.flowing.set()
    assert held_up.survey() == []


def test_a_store_is_not_opened_for_ever(behind: str, proxy: Proxy) -> None:
    proxy.flowing.clear()
    with pytest.raises(StoreUnavailable, match="timeout"):
        open_store(f"{behind}&patience=1")


def test_rings_are_heard_again_though_nobody_said_that_they_no_longer_come(
    url: str, held_up: PostgresStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ear, "_QUIET_SECONDS", 0.2)
    listener = held_up.bell.listen()
    until(lambda: held_up.bell._ear.hears)
    proxy.strand_all()
    until(lambda: not held_up.bell._ear.hears)
    until(lambda: held_up.bell._ear.hears)
    listener.wait(0)
    with closing(PostgresStore(url)) as other:
        Desk(other).intake.enqueue(Job("news"))
    heard: set[str] = set()
    while "news" not in heard:
        heard |= listener.wait(10)
    listener.close()


@pytest.mark.parametrize("said", ["0.5", "3601", "long", "nan"])
def test_a_patience_that_cannot_be_had_is_told(said: str) -> None:
    with pytest.raises(BadInput, match="a number of seconds from 1 to 3600"):
        open_store(f"postgresql://localhost/shop?patience={said}")
