"""Enqueuing in transactions of the caller's own, over any driver's connections."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable
from contextlib import closing, suppress
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
import sqlalchemy
import sqlalchemy.orm

from stoker import Stoker
from stoker.desk import Desk, Twin
from stoker.errors import BadInput, Duplicate, StoreMoved
from stoker.kernel.job import Job, State
from stoker.store import Filter
from stoker.store.memory import MemoryStore
from stoker.store.seal import Seal, sealed
from tests.model.postgres_books import assert_books_balance
from tests.servers.postgres import Server
from tests.store.outsiders import Spoilt, queued
from tests.store.postgres.within.connections import (
    awaited,
    connections,
    django_connection_to,
    roll_back,
    savepoint,
)
from tests.store.sqlite.busy_day import desk_at


@connections
def test_a_job_is_there_when_the_transaction_commits(
    opened: Any, app: Stoker, server: Server
) -> None:
    task = app.task(name="work", queue="mail")(lambda order: order)
    ear = app.desk.store.bell.listen()
    with opened(server) as connection:
        job = task.within(connection).options(key="ann").enqueue(7)
        assert queued(app.desk) == 0
        assert ear.wait(0) == set()
    assert ear.wait(10) == {"mail"}
    assert (job.job.key, job.job.payload) == ("ann", b'{"order":7}')
    assert [each.id for each in app.desk.dispatch.claim(["mail"])] == [job.id]


@connections
def test_a_job_is_never_there_when_it_does_not(opened: Any, app: Stoker, server: Server) -> None:
    task = app.task(name="work", queue="mail")(lambda order: order)
    app.configure("mail", key_capacity=1)
    with opened(server) as connection:
        task.within(connection).options(key="k").enqueue(7)
        roll_back(connection)
    assert queued(app.desk) == 0
    assert app.desk.dispatch.claim(["mail"]) == []
    assert_books_balance(app.desk.store)  # type: ignore[arg-type]


@connections
def test_calls_keep_to_the_transaction_of_their_task(
    opened: Any, app: Stoker, server: Server
) -> None:
    task = app.task(name="work")(lambda order: order)
    with opened(server) as connection:
        within = task.within(connection)
        app.enqueue_many([within.call(1), within.options(rank=1).call(2)])
        assert queued(app.desk) == 0
        roll_back(connection)
    assert queued(app.desk) == 0


@connections
def test_a_job_goes_the_way_of_its_savepoint(opened: Any, app: Stoker, server: Server) -> None:
    task = app.task(name="work", queue="mail")(lambda order: order)
    app.configure("mail", key_capacity=1)
    with opened(server) as connection:
        within = task.within(connection).options(key="k")
        first = within.enqueue(1)
        with suppress(Spoilt), savepoint(connection):
            within.enqueue(2)
            raise Spoilt
        with savepoint(connection):
            last = within.enqueue(3)
    assert [each.id for each in app.desk.store.find(Filter())] == [first.id, last.id]
    assert_books_balance(app.desk.store)  # type: ignore[arg-type]


@awaited
def test_a_job_goes_the_way_of_its_savepoint_when_that_is_awaited(
    opened: Any, app: Stoker, server: Server
) -> None:
    task = app.task(name="work")(lambda order: order)

    async def place() -> list[int]:
        async with opened(server) as connection:
            within = task.within(connection)
            first = await within.aenqueue(1)
            with suppress(Spoilt):
                async with savepoint(connection):
                    await within.aenqueue(2)
                    raise Spoilt
            async with savepoint(connection):
                last = await within.aenqueue(3)
        return [first.id, last.id]

    placed = asyncio.run(place())
    assert [each.id for each in app.desk.store.find(Filter())] == placed


def test_where_there_is_no_transaction_a_job_is_there_at_once(app: Stoker, server: Server) -> None:
    task = app.task(name="work")(lambda order: order)
    with psycopg.connect(server.url(), autocommit=True) as connection:
        task.within(connection).enqueue(1)
        assert queued(app.desk) == 1
    with closing(django_connection_to(server)) as connection:
        task.within(connection).enqueue(2)
        assert queued(app.desk) == 2


@awaited
def test_an_awaited_connection_enqueues_as_well(opened: Any, app: Stoker, server: Server) -> None:
    task = app.task(name="work", queue="mail")(lambda order: order)

    async def place(spoil: bool) -> None:
        async with opened(server) as connection:
            await app.aenqueue_many([task.call(1), task.call(2)], within=connection)
            await task.within(connection).aenqueue(3)
            with pytest.raises(BadInput, match="has to be awaited"):
                task.within(connection).enqueue(4)
            assert queued(app.desk) == before
            if spoil:
                raise Spoilt

    before = 0
    asyncio.run(place(spoil=False))
    assert queued(app.desk) == 3
    before = 3
    with pytest.raises(Spoilt):
        asyncio.run(place(spoil=True))
    assert queued(app.desk) == 3


def test_a_connection_that_need_not_be_awaited_may_be(app: Stoker, server: Server) -> None:
    task = app.task(name="work")(lambda: None)
    with psycopg.connect(server.url()) as connection:
        asyncio.run(_enqueued(task.within(connection).aenqueue()))
        asyncio.run(_enqueued(app.aenqueue_many([task.within(connection).call()])))
        assert queued(app.desk) == 0
    assert queued(app.desk) == 2


async def _enqueued(job: Awaitable[Any]) -> None:
    await job


def test_a_twin_is_told_and_leaves_the_transaction_as_it_was(store: Any, server: Server) -> None:
    desk = desk_at(store)
    there = desk.intake.enqueue(Job("q", unique_key="u")).id
    with psycopg.connect(server.url()) as connection:
        within = desk.intake.enqueue_within
        with pytest.raises(Duplicate):
            within(connection, [Job("q"), Job("q", unique_key="u")])
        jobs = [Job("q", unique_key="u"), Job("q", ref="r"), Job("q", ref="r")]
        placed = within(connection, jobs, twin=Twin.RETURN)
        assert [(each.id == there, each.fresh) for each in placed] == [
            (True, False),
            (False, True),
            (False, False),
        ]
        with pytest.raises(BadInput, match="cannot be updated"):
            within(connection, jobs, twin=Twin.UPDATE)
    assert queued(desk) == 2


def test_a_twin_whose_transaction_is_still_open_is_waited_for(store: Any, server: Server) -> None:
    desk, placed = desk_at(store), list[Any]()

    def enqueue() -> None:
        with psycopg.connect(server.url()) as other:
            job = [Job("q", unique_key="u")]
            placed.extend(desk.intake.enqueue_within(other, job, twin=Twin.RETURN))

    with psycopg.connect(server.url()) as connection:
        (first,) = desk.intake.enqueue_within(connection, [Job("q", unique_key="u")])
        thread = threading.Thread(target=enqueue)
        thread.start()
    thread.join()
    assert [tuple(each) for each in placed] == [(first.id, False)]


def test_a_connection_that_leads_elsewhere_is_refused(app: Stoker, server: Server) -> None:
    task = app.task(name="work")(lambda: None)
    app.desk.store.survey()
    with psycopg.connect(server.url().replace("/postgres?", "/template1?")) as connection:
        with pytest.raises(BadInput, match="leads to no store"):
            task.within(connection).enqueue()
        connection.rollback()


NO_CONNECTIONS: dict[str, Any] = {
    "sqlite3.Connection": lambda: sqlite3.connect(":memory:"),
    "str": lambda: "postgresql://localhost",
    "sqlalchemy.engine.base.Engine": lambda: sqlalchemy.create_engine("postgresql+psycopg://"),
    "sqlalchemy.orm.session.sessionmaker": sqlalchemy.orm.sessionmaker,
    "asyncpg.pool.Pool": asyncpg.create_pool,
}


@pytest.mark.parametrize("name", NO_CONNECTIONS)
def test_what_is_no_connection_of_postgresql_is_refused(name: str, app: Stoker) -> None:
    task = app.task(name="work")(lambda: None)

    async def enqueue() -> None:
        await task.within(NO_CONNECTIONS[name]()).aenqueue()

    with pytest.raises(BadInput, match=f"^{name} is no connection .* and no pool, engine or curs"):
        asyncio.run(enqueue())


def test_a_store_that_is_not_in_the_callers_database_says_so() -> None:
    desk = Desk(MemoryStore())
    with pytest.raises(BadInput, match="cannot take part in a transaction of yours"):
        desk.intake.enqueue_within(object(), [Job("q")])


def test_a_sealed_store_takes_no_jobs_this_way_either(store: Any, server: Server) -> None:
    desk = desk_at(store)
    desk.intake.enqueue(Job("q"))
    (job,) = desk.dispatch.claim(["q"])
    store.transact([sealed(Seal("the jobs have moved"))])
    with psycopg.connect(server.url()) as connection:
        desk.report.finish_within(connection, job)  # what runs may still end
    with (
        pytest.raises(StoreMoved, match="the jobs have moved"),
        psycopg.connect(server.url()) as connection,
    ):
        desk.intake.enqueue_within(connection, [Job("q")])
    assert store.get([job.id])[job.id].state is State.FINISHED
