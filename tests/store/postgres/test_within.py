"""Enqueuing and ending jobs in transactions of the caller's own, over any driver's connections."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from importlib.util import find_spec
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from stoker import Context, JobFailed, Stoker
from stoker.desk import Desk, Twin
from stoker.errors import BadInput, Duplicate, LeaseLost, StoreMoved
from stoker.kernel.change import Change
from stoker.kernel.job import Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.queue import Order, QueueSettings
from stoker.store import Answer, Claim, Filter, Receipt
from stoker.store.memory import MemoryStore
from stoker.store.postgres import PostgresStore
from stoker.store.seal import Seal, sealed
from tests.engines import START, VirtualClock
from tests.model.lives import Lives, SeededChooser
from tests.model.postgres_books import assert_books_balance
from tests.servers.postgres import Server
from tests.store.sqlite.busy_day import desk_at

HOUR = 3600 * 1_000_000


class Spoilt(Exception):
    """Something goes wrong in the caller's transaction."""


# -- connections, each in a transaction that ends well or not -------------------------------


@contextmanager
def psycopg_connection(server: Server) -> Iterator[Any]:
    with psycopg.connect(server.url()) as connection:
        yield connection


@contextmanager
def psycopg_with_rows_as_dictionaries(server: Server) -> Iterator[Any]:
    rows: Any = psycopg.rows.dict_row
    with psycopg.connect(server.url(), row_factory=rows) as connection:
        yield connection


def _sqlalchemy_url(server: Server, driver: str) -> str:
    return server.url().replace("postgresql:", f"postgresql+{driver}:")


@contextmanager
def sqlalchemy_connection(server: Server) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(_sqlalchemy_url(server, "psycopg"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def sqlalchemy_session(server: Server) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(_sqlalchemy_url(server, "psycopg"))
    try:
        with Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


@asynccontextmanager
async def async_psycopg_connection(server: Server) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(server.url()) as connection:
        yield connection


@asynccontextmanager
async def asyncpg_connection(server: Server) -> AsyncIterator[Any]:
    folder = str(server.socket.parent)
    connection = await asyncpg.connect(host=folder, user="postgres", database="postgres")
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(server: Server) -> AsyncIterator[Any]:
    folder = str(server.socket.parent)
    pool = asyncpg.create_pool(host=folder, user="postgres", database="postgres", min_size=1)
    async with pool, pool.acquire() as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def async_sqlalchemy_connection(server: Server) -> AsyncIterator[Any]:
    from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415 - needs greenlet

    engine = create_async_engine(_sqlalchemy_url(server, "asyncpg"))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def async_sqlalchemy_session(server: Server) -> AsyncIterator[Any]:
    from sqlalchemy.ext.asyncio import (  # noqa: PLC0415 - needs greenlet
        AsyncSession,
        create_async_engine,
    )

    engine = create_async_engine(_sqlalchemy_url(server, "psycopg"))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


SYNC: list[Callable[[Server], AbstractContextManager[Any]]] = [
    psycopg_connection,
    psycopg_with_rows_as_dictionaries,
    sqlalchemy_connection,
    sqlalchemy_session,
]
ASYNC = [
    async_psycopg_connection,
    asyncpg_connection,
    asyncpg_pool,
]
if find_spec("greenlet"):
    ASYNC += [async_sqlalchemy_connection, async_sqlalchemy_session]
connections = pytest.mark.parametrize("opened", SYNC, ids=lambda each: each.__name__)
awaited = pytest.mark.parametrize("opened", ASYNC, ids=lambda each: each.__name__)


@pytest.fixture
def app(url: str) -> Iterator[Stoker]:
    app = Stoker(url)
    yield app
    app.close()


def queued(desk: Desk) -> int:
    return sum(view.counts[State.QUEUED] for view in desk.store.survey())


# -- enqueuing -----------------------------------------------------------------------------


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
        connection.rollback()
    assert queued(app.desk) == 0
    assert app.desk.dispatch.claim(["mail"]) == []
    assert_books_balance(app.desk.store)  # type: ignore[arg-type]


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
    assert queued(app.desk) == 1


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


@pytest.mark.parametrize(
    ("connection", "words"),
    [
        (sqlite3.connect(":memory:"), "a Connection is no connection that can be used here"),
        ("postgresql://localhost", "a str is no connection"),
    ],
)
def test_what_is_no_connection_of_postgresql_is_refused(
    connection: Any, words: str, app: Stoker
) -> None:
    task = app.task(name="work")(lambda: None)
    with pytest.raises(BadInput, match=words):
        task.within(connection).enqueue()


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


@contextmanager
def at_work(app: Stoker) -> Iterator[None]:
    worker = app.worker(concurrency=2)
    worker.start()
    try:
        yield
    finally:
        worker.stop()


# -- ending --------------------------------------------------------------------------------


def test_an_effect_and_the_end_of_its_job_are_committed_together(
    app: Stoker, server: Server, connection: psycopg.Connection
) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS effect (job bigint)")
    connection.execute("DELETE FROM effect")

    @app.task(retry="fixed 10ms x2")
    def work(context: Context) -> dict[str, int]:
        with psycopg.connect(server.url()) as own:
            own.execute("INSERT INTO effect VALUES (%s)", [context.job.id])
            context.finish({"try": context.attempt}, within=own)
            if context.attempt == 1:
                raise Spoilt
        return {"does not count": 0}

    with at_work(app):
        assert work.enqueue().wait(timeout="60s") == {"try": 2}
    assert connection.execute("SELECT count(*) FROM effect").fetchone() == (1,)
    connection.execute("DROP TABLE effect")


def test_a_handler_that_leaves_its_transaction_open_has_failed(app: Stoker, server: Server) -> None:
    open_ones = []

    @app.task
    def work(context: Context) -> None:
        own = psycopg.connect(server.url())
        open_ones.append(own)
        context.finish(within=own)

    with at_work(app):
        job = work.enqueue()
        while not open_ones or not _is_waited_for(server):
            pass  # nobody can write to the job as long as the transaction is open
        open_ones[0].close()
        with pytest.raises(JobFailed, match="was not committed"):
            job.wait(timeout="60s")


def _is_waited_for(server: Server) -> bool:
    with psycopg.connect(server.url()) as other:
        row = other.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
        return row != (0,)


@connections
def test_whoever_has_lost_its_lease_cannot_commit(opened: Any, app: Stoker, server: Server) -> None:
    desk = app.desk
    desk.intake.enqueue(Job("q"))
    (job,) = desk.dispatch.claim(["q"])
    desk.report.release(job)
    (again,) = desk.dispatch.claim(["q"])
    with pytest.raises(LeaseLost, match=f"job {job.id} is no longer yours"), opened(server) as own:
        desk.report.finish_within(own, job)
    asked = sqlalchemy.text("SELECT 1") if "sqlalchemy" in opened.__name__ else "SELECT 1"
    with opened(server) as own:
        with pytest.raises(LeaseLost):
            desk.report.finish_within(own, job)
        with pytest.raises(Exception, match=r"aborted|rolled back"):
            own.execute(asked)
        own.rollback()
    assert desk.store.get([job.id])[job.id] == again


@awaited
def test_an_awaited_connection_ends_jobs_as_well(opened: Any, app: Stoker, server: Server) -> None:
    desk = app.desk
    desk.intake.enqueue_many([Job("q"), Job("q")])
    first, second = desk.dispatch.claim(["q"], 2)
    desk.report.release(second)

    async def end() -> None:
        async with opened(server) as connection:
            await desk.report.afinish_within(connection, first, b"1")
        with pytest.raises(LeaseLost):
            async with opened(server) as connection:
                await desk.report.afinish_within(connection, second)

    asyncio.run(end())
    states = [desk.store.get([job.id])[job.id].state for job in (first, second)]
    assert states == [State.FINISHED, State.QUEUED]


# -- the same as any other way ---------------------------------------------------------------


class WithinStore(PostgresStore):
    """A store that lets every Change be committed by a connection of somebody else's, if it can."""

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        receipts = [self._committed(change) for change in changes]
        return Answer(receipts, super().transact((), claims).grants)

    def _committed(self, change: Change) -> Receipt:
        others = change.touches or change.queues or change.notes
        if others or (change.inserts and (change.writes or change.deletes or change.tallies)):
            return super().transact([change]).receipts[0]
        with psycopg.connect(self.address.conninfo) as connection:
            try:
                receipt = self.commit_within(connection, change)
            except (LeaseLost, psycopg.errors.UniqueViolation):
                connection.rollback()
                return super().transact([change]).receipts[0]  # which tells what is stale
        self._note(change)
        ids = [tally.parent_id for tally in change.tallies] if receipt.ok else []
        parents = self.get(ids)
        return Receipt(
            receipt.ok,
            receipt.ids,
            twins=receipt.twins,
            parents=tuple(parents[each] for each in dict.fromkeys(ids) if each in parents),
        )

    def _note(self, change: Change) -> None:
        """What a process learns of others' commits within a second, at once."""
        for job in self.find(Filter(states=(State.QUEUED,), limit=1000)):
            self._marks.placed(job.queue, job.due_at)


@pytest.mark.parametrize("seed", range(3))
def test_random_lives_agree_when_others_commit(seed: int, url: str) -> None:
    clock = VirtualClock()
    store = WithinStore(url, clock=clock)
    lives = Lives(SeededChooser(seed), clock, MemoryStore(clock), store)
    for step in range(1, 121):
        lives.step()
        if step % 20 == 0:
            assert_books_balance(store)
    store.close()


def test_a_job_is_placed_by_the_settings_of_its_queue(store: Any, server: Server) -> None:
    desk = desk_at(store)
    desk.control.configure("q", QueueSettings(key_capacity=1, order=Order.TIME_RANK))
    policy = Policy(timeout=HOUR, repeat="every 1h")
    with psycopg.connect(server.url()) as connection:
        desk.intake.enqueue_within(
            connection,
            [Job("q", key="k", rank=n, due_at=START - 9 + n, policy=policy) for n in (3, 1, 2)],
        )
    assert [job.rank for job in desk.dispatch.claim(["q"], 5)] == [1]
    assert_books_balance(store)


def test_a_job_of_a_limited_task_finds_its_lane_and_makes_room_when_it_ends(
    store: Any, server: Server
) -> None:
    desk = desk_at(store)
    desk.control.configure("q", QueueSettings(tasks={"t": 1}, within="outer"))
    desk.control.configure("p", QueueSettings(within="outer"))
    with psycopg.connect(server.url()) as connection:
        jobs = [Job("q", "t", key=key) for key in ("a", None)]
        first, second = desk.intake.enqueue_within(connection, jobs)
    (job,) = desk.dispatch.claim(["q"], 5)
    assert job.id == first.id
    with closing(store.bell.listen()) as ear:
        with psycopg.connect(server.url()) as connection:
            desk.report.finish_within(connection, job)
        heard: set[str] = set()
        while not heard >= {"q", "p", "outer"}:
            heard |= ear.wait(10)
    assert [job.id for job in desk.dispatch.claim(["q"], 5)] == [second.id]
    assert_books_balance(store)
