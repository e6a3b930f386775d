"""What goes wrong between a store and its server: told in our words, and mended by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from urllib.parse import quote

import psycopg
import pytest

from stoker.desk import Desk
from stoker.errors import (
    BadInput,
    StoreCorrupt,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
)
from stoker.kernel.change import Change
from stoker.kernel.job import Job, State
from stoker.store import Claim, Filter
from stoker.store.open import is_there, open_store
from stoker.store.postgres import PostgresStore
from stoker.store.postgres.schema import within
from tests.servers.pgbouncer import pgbouncer, program
from tests.servers.postgres import LOCKED_ROLE, Server
from tests.store.postgres.proxy import Pooler, Wire, standing_between

Connection = psycopg.Connection


def queued(store: PostgresStore) -> int:
    return sum(view.counts[State.QUEUED] for view in store.survey())


# -- addresses -----------------------------------------------------------------------------


def test_a_wrong_password_is_told(server: Server, connection: Connection) -> None:
    connection.execute(f"DROP ROLE IF EXISTS {LOCKED_ROLE}")
    connection.execute(f"CREATE ROLE {LOCKED_ROLE} LOGIN PASSWORD 'right'")
    url = server.url(user=f"{LOCKED_ROLE}:wrong")
    with pytest.raises(StoreUnavailable, match="password authentication failed") as told:
        PostgresStore(url)
    assert "wrong" not in str(told.value)


def test_a_database_that_is_not_there_is_told(server: Server) -> None:
    url = server.url().replace("/postgres?", "/nowhere?")
    with pytest.raises(StoreUnavailable, match='database "nowhere" does not exist'):
        open_store(url)


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(StoreUnavailable, match="check the address and the server"):
        open_store("postgresql://ann:secret@localhost:1/shop")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("schema=no-name", "use letters, digits and underscores"),
        ("listen=perhaps", "listen=yes or listen=no"),
        ("wings=2", "write postgresql://user:password@host:port/database"),
    ],
)
def test_an_option_that_cannot_be_read_is_told(options: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        open_store(f"postgresql://localhost/shop?{options}")


def test_a_store_is_there_once_it_was_made(url: str) -> None:
    assert not is_there(url)
    open_store(url).close()
    assert is_there(url)
    assert is_there(url.replace("postgresql:", "postgres:"))


# -- schemas -------------------------------------------------------------------------------


def test_a_schema_of_a_newer_version_is_refused(url: str, connection: Connection) -> None:
    store = PostgresStore(url)
    store.close()
    future = "UPDATE stoker.stoker_version SET version = 99"
    connection.execute(within(store.address.schema, future))
    with pytest.raises(StoreTooNew, match=r"has schema 99, .* upgrade Stoker"):
        PostgresStore(url)


def test_a_schema_with_tables_of_somebody_else_is_refused(url: str, connection: Connection) -> None:
    schema = url.rpartition("=")[2]
    connection.execute(f'CREATE SCHEMA "{schema}"')
    connection.execute(f'CREATE TABLE "{schema}".song (title text)')
    with pytest.raises(StoreCorrupt, match="tables of somebody else; choose another"):
        PostgresStore(url)
    tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema])
    assert tables.fetchall() == [("song",)]


def test_a_database_that_cannot_hold_every_text_is_refused(
    server: Server, connection: Connection
) -> None:
    connection.execute("DROP DATABASE IF EXISTS narrow")
    connection.execute("CREATE DATABASE narrow ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(StoreUnavailable, match="has the encoding LATIN1"):
        PostgresStore(server.url().replace("/postgres?", "/narrow?"))
    connection.execute("DROP DATABASE narrow")


def test_a_store_whose_tables_are_dropped_says_so(
    store: PostgresStore, connection: Connection
) -> None:
    connection.execute(f'DROP SCHEMA "{store.address.schema}" CASCADE')
    with pytest.raises(StoreUnavailable, match="has lost the tables"):
        store.survey()
    with pytest.raises(StoreUnavailable, match="has lost the tables"):
        store.transact([Change(inserts=(Job("q"),))])


def test_a_number_that_is_too_large_is_no_loss_of_tables(store: PostgresStore) -> None:
    for claim in (Claim(("q",), 1, token=2**70), Claim(("q",), 1, token=1, visibility=2**63 - 1)):
        store.transact([Change(inserts=(Job("q"),))])
        with pytest.raises(BadInput, match="cannot reckon with a number as large as one of this"):
            store.transact([], [claim])
    assert store.survey(["q"])[0].counts[State.QUEUED] == 2


# -- refusals ------------------------------------------------------------------------------


def test_a_database_one_may_only_read_is_told(url: str, server: Server) -> None:
    PostgresStore(url).close()
    read_only = PostgresStore(f"{url}&options={quote('-c default_transaction_read_only=on')}")
    with pytest.raises(StoreReadOnly, match="cannot be written"):
        Desk(read_only).intake.enqueue(Job("q"))
    assert read_only.survey() == []
    read_only.close()


def test_a_user_without_rights_is_told(url: str, server: Server, connection: Connection) -> None:
    store = PostgresStore(url)
    schema = store.address.schema
    connection.execute("DROP ROLE IF EXISTS guest")
    connection.execute("CREATE ROLE guest LOGIN")
    connection.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO guest')
    connection.execute(f'GRANT SELECT ON ALL TABLES IN SCHEMA "{schema}" TO guest')
    guest = PostgresStore(url.replace("postgres@", "guest@"))
    with pytest.raises(StoreReadOnly, match="no rights"):
        Desk(guest).intake.enqueue(Job("q"))
    guest.close()
    store.close()
    connection.execute("DROP OWNED BY guest; DROP ROLE guest")


def test_a_row_that_somebody_holds_for_too_long_is_told(
    store: PostgresStore, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(store)
    job = desk.intake.enqueue(Job("q"))
    monkeypatch.setattr("stoker.store.postgres.driver._PATIENTLY", "SET LOCAL lock_timeout = 50")
    with connection.transaction():
        connection.execute(f'SELECT FROM "{store.address.schema}".job FOR UPDATE')
        with pytest.raises(StoreLocked, match="end the transaction that holds"):
            desk.control.cancel(job.id)
    assert desk.control.cancel(job.id).state is State.CANCELLED


# -- lines that are cut --------------------------------------------------------------------


@contextmanager
def through(url: str, server: Server, between: Wire) -> Iterator[str]:
    """The same address, with something in between."""
    with standing_between(between.serve) as folder:
        yield url.replace(f"host={server.socket.parent}", f"host={folder}")


def test_a_store_goes_on_when_its_idle_connections_were_cut(url: str, server: Server) -> None:
    wire = Wire(server.socket)
    with through(url, server, wire) as way:
        store = PostgresStore(way)
        desk = Desk(store)
        desk.intake.enqueue(Job("q"))
        wire.cut()
        assert desk.intake.enqueue(Job("q")).id == 2
        assert queued(store) == 2
        store.close()


def test_an_answer_that_is_lost_is_told_and_the_commit_stands(url: str, server: Server) -> None:
    wire = Wire(server.socket)
    with through(url, server, wire) as way:
        store = PostgresStore(way)
        desk = Desk(store)
        desk.intake.enqueue(Job("q"))
        wire.swallowing = True
        with pytest.raises(StoreUnavailable, match="lost before the answer came"):
            desk.intake.enqueue_many([Job("q"), Job("q")])
        wire.swallowing = False
        assert queued(store) == 3
        store.close()


def test_a_claim_whose_answer_was_lost_is_found_by_its_session(url: str, server: Server) -> None:
    wire = Wire(server.socket)
    with through(url, server, wire) as way:
        store = PostgresStore(way)
        desk = Desk(store)
        desk.intake.enqueue(Job("q"))
        session = desk.dispatch.open_session(ttl=60_000_000)
        request = desk.dispatch.request(["q"], 1, session=session)
        wire.swallowing = True
        with pytest.raises(StoreUnavailable):
            store.transact([], [request])
        wire.swallowing = False
        (job,) = store.find(Filter(session=session))
        assert desk.report.finish(job).state is State.FINISHED
        store.close()


def test_a_cut_in_the_middle_of_a_transaction_leaves_no_trace(url: str, server: Server) -> None:
    wire = Wire(server.socket)
    with through(url, server, wire) as way:
        store = PostgresStore(way)
        desk = Desk(store)
        wire.swallowing = True
        with pytest.raises(StoreUnavailable):
            desk.intake.enqueue(Job("q", ref="named"))  # more than one round trip
        wire.swallowing = False
        assert queued(store) == 0
        assert desk.intake.enqueue(Job("q", ref="named")).fresh
        store.close()


# -- restarts ------------------------------------------------------------------------------


def test_a_store_goes_on_after_a_restart_of_the_server(own_server: Server) -> None:
    store = PostgresStore(own_server.url("stoker"))
    ear = store.bell.listen()
    desk = Desk(store)
    desk.intake.enqueue(Job("q"))
    own_server.stop()
    with pytest.raises(StoreUnavailable):
        desk.intake.enqueue(Job("q"))
    own_server.start()
    assert desk.intake.enqueue(Job("q")).fresh
    assert queued(store) == 2
    other = PostgresStore(own_server.url("stoker"))
    heard: set[str] = set()
    while "r" not in heard:  # the ear finds its way back too
        Desk(other).intake.enqueue(Job("r"))
        heard |= ear.wait(0.2)
    other.close()
    store.close()


# -- through a pooler ----------------------------------------------------------------------


@contextmanager
def pooled(server: Server) -> Iterator[str]:
    """The folder in which a pooler of ours listens, as a real one does."""
    pooler = Pooler(server.socket)
    with standing_between(pooler.serve) as folder:
        yield folder
    pooler.close()


POOLERS = [pooled, pgbouncer] if program() else [pooled]


@pytest.mark.parametrize("pooler", POOLERS, ids=lambda pooler: pooler.__name__)
def test_everything_works_through_a_pooler_but_rings_from_others(
    pooler: Callable[[Server], AbstractContextManager[str]], url: str, server: Server
) -> None:
    with pooler(server) as folder:
        way = url.replace(f"host={server.folder}", f"host={folder}")
        stores = [PostgresStore(way) for _ in range(3)]
        ear = stores[2].bell.listen()
        desks = [Desk(store) for store in stores]
        for _ in range(10):
            for desk in desks:
                desk.intake.enqueue(Job("q"))
                desk.intake.enqueue(Job("q", unique_key=f"{desk.intake.enqueue(Job('q')).id}"))
        assert queued(stores[0]) == 90
        done = 0
        while jobs := desks[done % 3].dispatch.claim(["q"], 7):
            desks[(done + 1) % 3].report.many([])
            for job in jobs:
                desks[done % 3].report.finish(job)
            done += len(jobs)
        assert done == 90
        assert not stores[2].bell.comes_through()
        Desk(stores[0]).intake.enqueue(Job("late"))
        heard: set[str] = set()
        while "late" not in heard:  # found by looking
            heard |= ear.wait(10)
        for store in stores:
            store.close()
