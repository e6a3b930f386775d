"""Enqueuing and ending jobs in transactions of the caller's own, on the store's own file."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from stoker import Context, JobFailed, Stoker
from stoker.desk import Desk, Twin
from stoker.errors import BadInput, Duplicate, LeaseLost, StoreLocked, StoreMoved
from stoker.kernel.change import Change
from stoker.kernel.job import Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.queue import Order, QueueSettings
from stoker.store import Answer, Claim
from stoker.store.memory import MemoryStore
from stoker.store.seal import Seal, sealed
from stoker.store.sqlite import SqliteStore, afterwards
from stoker.store.sqlite.driver import Sync
from tests.engines import START, VirtualClock
from tests.model.lives import Lives, SeededChooser
from tests.model.sqlite_books import assert_books_balance
from tests.store.sqlite.busy_day import desk_at
from tests.store.sqlite.process import Process

HOUR = 3600 * 1_000_000


class Spoilt(Exception):
    """Something goes wrong in the caller's transaction."""


# -- connections, each in a transaction that ends well or not -------------------------------


@contextmanager
def sqlite3_connection(path: Path) -> Iterator[Any]:
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


@contextmanager
def sqlite3_with_tastes_of_its_own(path: Path) -> Iterator[Any]:
    with closing(sqlite3.connect(path, isolation_level="EXCLUSIVE")) as connection, connection:
        connection.row_factory = lambda cursor, row: str(row)
        connection.text_factory = bytes
        yield connection
        assert connection.text_factory is bytes


@contextmanager
def sqlite3_begun_by_hand(path: Path) -> Iterator[Any]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection, connection:
        connection.execute("BEGIN")
        yield connection


@contextmanager
def engine_on(path: Path) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def sqlalchemy_connection(path: Path) -> Iterator[Any]:
    with engine_on(path) as engine, engine.connect() as connection:
        yield connection
        connection.commit()


@contextmanager
def sqlalchemy_session(path: Path) -> Iterator[Any]:
    with engine_on(path) as engine, Session(engine) as session, session.begin():
        yield session


@contextmanager
def apsw_connection(path: Path) -> Iterator[Any]:
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(10_000)
        with connection:
            yield connection


@contextmanager
def apsw_with_rows_as_dictionaries(path: Path) -> Iterator[Any]:
    with apsw_connection(path) as connection:
        connection.row_trace = trace = lambda cursor, row: dict(enumerate(row))
        yield connection
        assert connection.row_trace is trace


class Kind(NamedTuple):
    """A kind of connection, and the library it is of."""

    library: str
    opened: Callable[[Path], AbstractContextManager[Any]]


KINDS = [
    Kind("sqlite3", sqlite3_connection),
    Kind("sqlite3", sqlite3_with_tastes_of_its_own),
    Kind("sqlite3", sqlite3_begun_by_hand),
    Kind("sqlite3", sqlalchemy_connection),
    Kind("sqlite3", sqlalchemy_session),
    Kind("apsw", apsw_connection),
    Kind("apsw", apsw_with_rows_as_dictionaries),
]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.opened.__name__)
plain = pytest.mark.parametrize("kind", [KINDS[0], KINDS[5]], ids=["sqlite3", "apsw"])
of_python = pytest.mark.parametrize("kind", [KINDS[0]], ids=["sqlite3"])


@pytest.fixture
def url(kind: Kind, path: Path) -> str:
    return f"sqlite:///{path}?sync=normal&library={kind.library}"


@pytest.fixture
def app(url: str) -> Iterator[Stoker]:
    app = Stoker(url)
    yield app
    app.close()


@pytest.fixture
def store(kind: Kind, path: Path, clock: VirtualClock) -> Iterator[SqliteStore]:
    store = SqliteStore(path, sync=Sync.NORMAL, clock=clock, library=kind.library)
    yield store
    store.close()


def run(connection: Any, sql: str) -> Any:
    """A statement of the caller's own."""
    core = type(connection).__module__.startswith("sqlalchemy")
    return connection.execute(sqlalchemy.text(sql) if core else sql)


def make_effects(kind: Kind, path: Path) -> None:
    """A table of the caller's own, in the file of the store."""
    with kind.opened(path) as connection:
        run(connection, "CREATE TABLE effect (job INTEGER)")


def effects(kind: Kind, path: Path) -> int:
    opened = sqlite3.connect if kind.library == "sqlite3" else apsw.Connection
    with closing(opened(str(path))) as connection:
        return len(connection.execute("SELECT job FROM effect").fetchall())


def queued(desk: Desk) -> int:
    return sum(view.counts[State.QUEUED] for view in desk.store.survey())


def assert_balanced(store: object) -> None:
    assert isinstance(store, SqliteStore)
    assert_books_balance(store.path, store.file.library)


# -- enqueuing -----------------------------------------------------------------------------


@kinds
def test_a_job_is_there_when_the_transaction_commits(kind: Kind, app: Stoker, path: Path) -> None:
    task = app.task(name="work", queue="mail")(lambda order: order)
    ear = app.desk.store.bell.listen()
    with kind.opened(path) as connection:
        job = task.within(connection).options(key="ann").enqueue(7)
        assert queued(app.desk) == 0
        assert ear.wait(0.05) == set()
    assert ear.wait(10) == {"mail"}
    ear.close()
    assert (job.job.key, job.job.payload) == ("ann", b'{"order":7}')
    assert [each.id for each in app.desk.dispatch.claim(["mail"])] == [job.id]


@kinds
def test_a_job_is_never_there_when_it_does_not(kind: Kind, app: Stoker, path: Path) -> None:
    task = app.task(name="work", queue="mail", timeout="1h")(lambda order: order)
    app.configure("mail", key_capacity=1)
    with kind.opened(path) as connection:
        task.within(connection).options(key="k").enqueue(7)
        if kind.library == "apsw":
            connection.execute("ROLLBACK; BEGIN")
        else:
            connection.rollback()
    assert queued(app.desk) == 0
    assert app.desk.dispatch.claim(["mail"]) == []
    task.enqueue(8)
    assert_balanced(app.desk.store)


@kinds
def test_many_calls_come_into_being_together(kind: Kind, app: Stoker, path: Path) -> None:
    task = app.task(name="work")(lambda order: order)
    with kind.opened(path) as connection:
        app.enqueue_many([task.call(n) for n in range(30)], within=connection)
        asyncio.run(app.aenqueue_many([task.call(30)], within=connection))
    assert queued(app.desk) == 31
    assert_balanced(app.desk.store)


@plain
def test_a_twin_is_told_and_leaves_the_transaction_as_it_was(
    kind: Kind, store: SqliteStore, path: Path
) -> None:
    desk = desk_at(store)
    there = desk.intake.enqueue(Job("q", unique_key="u")).id
    make_effects(kind, path)
    with kind.opened(path) as connection:
        run(connection, "INSERT INTO effect VALUES (1)")
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
    assert (queued(desk), effects(kind, path)) == (2, 1)


@of_python
def test_a_twin_begins_no_transaction(kind: Kind, store: SqliteStore, path: Path) -> None:
    desk = desk_at(store)
    desk.intake.enqueue(Job("q", unique_key="u"))
    with closing(sqlite3.connect(path)) as connection:
        with pytest.raises(Duplicate):
            desk.intake.enqueue_within(connection, [Job("q", unique_key="u")])
        assert not connection.in_transaction
        desk.intake.enqueue_within(connection, [Job("q")])
        assert connection.in_transaction, "a write begins one, as ever with this module"


@plain
def test_without_a_transaction_a_connection_that_begins_none_commits_at_once(
    kind: Kind, store: SqliteStore, path: Path
) -> None:
    desk, ear = desk_at(store), store.bell.listen()
    opened: Any = apsw.Connection(str(path))
    if kind.library == "sqlite3":
        opened = sqlite3.connect(path, isolation_level=None)
    with closing(opened) as connection:
        desk.intake.enqueue_within(connection, [Job("q"), Job("q", key="k")])
        assert ear.wait(0) == {"q"}
        assert not connection.in_transaction
    ear.close()
    assert queued(desk) == 2
    assert_balanced(store)


@plain
def test_a_job_is_placed_by_the_settings_of_its_queue(
    kind: Kind, store: SqliteStore, path: Path
) -> None:
    desk = desk_at(store)
    desk.control.configure("q", QueueSettings(key_capacity=1, order=Order.TIME_RANK))
    policy = Policy(timeout=HOUR, repeat="every 1h")
    with kind.opened(path) as connection:
        desk.intake.enqueue_within(
            connection,
            [Job("q", key="k", rank=n, due_at=START - 9 + n, policy=policy) for n in (3, 1, 2)],
        )
    assert [job.rank for job in desk.dispatch.claim(["q"], 5)] == [1]
    assert_balanced(store)


@plain
def test_a_sealed_store_takes_no_jobs_this_way_either(
    kind: Kind, store: SqliteStore, path: Path
) -> None:
    desk = desk_at(store)
    desk.intake.enqueue(Job("q"))
    (job,) = desk.dispatch.claim(["q"])
    store.transact([sealed(Seal("the jobs have moved"))])
    with kind.opened(path) as connection:
        desk.report.finish_within(connection, job)  # what runs may still end
    with (
        pytest.raises(StoreMoved, match="the jobs have moved"),
        kind.opened(path) as connection,
    ):
        desk.intake.enqueue_within(connection, [Job("q")])
    assert store.get([job.id])[job.id].state is State.FINISHED


# -- who commits, and who hears of it --------------------------------------------------------

PLACING = """
import sqlite3
from stoker.store.sqlite import afterwards
afterwards._SHORTEST_PAUSE = afterwards._LONGEST_PAUSE = 600  # so that it looks when it ends
desk = Desk(SqliteStore(sys.argv[1], library="sqlite3"))
connection = sqlite3.connect(sys.argv[1])
desk.intake.enqueue_within(connection, [Job("q", key="k"), Job("q")])
say("enqueued")
if wait_for_a_word() == "commit":
    connection.commit()
"""

CLAIMING = """
desk = Desk(SqliteStore(sys.argv[1]))
ear = desk.store.bell.listen()
say("listening")
say(sorted(ear.wait(60)))
say(len(desk.dispatch.claim(["q"], 9)))
"""


@plain
def test_whoever_is_killed_before_its_commit_has_enqueued_nothing(
    kind: Kind, store: SqliteStore, path: Path
) -> None:
    with Process(PLACING, path) as caller:
        assert caller.hear() == "enqueued"
        caller.kill()
    desk = desk_at(store)
    assert queued(desk) == 0
    desk.intake.enqueue(Job("q", key="k"))
    assert len(desk.dispatch.claim(["q"], 9)) == 1
    assert_balanced(store)


def test_another_process_gets_the_jobs_when_they_are_committed(path: Path) -> None:
    SqliteStore(path).close()
    with Process(CLAIMING, path) as claimer, Process(PLACING, path) as caller:
        assert claimer.hear() == "listening"
        assert caller.hear() == "enqueued"
        caller.tell("commit")  # after which it ends at once, without closing anything
        assert claimer.hear() == "['q']"
        assert claimer.hear() == "2"


@plain
def test_a_store_that_is_closed_after_the_commit_has_rung(kind: Kind, url: str, path: Path) -> None:
    app, listener = Stoker(url), Stoker(url)
    ear = listener.desk.store.bell.listen()
    with kind.opened(path) as connection:
        app.task(name="work", queue="q")(lambda: None).within(connection).enqueue()
    app.close()
    assert ear.wait(0) == {"q"}
    assert "stoker-afterwards" not in [thread.name for thread in threading.enumerate()]
    ear.close()
    listener.close()


@plain
def test_what_is_rolled_back_is_not_waited_for_for_ever(
    kind: Kind, store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(afterwards, "_LONGEST", 0)
    with suppress(Spoilt), kind.opened(path) as connection:
        desk_at(store).intake.enqueue_within(connection, [Job("q")])
        raise Spoilt
    for thread in threading.enumerate():
        if thread.name == "stoker-afterwards":
            thread.join(10)
            assert not thread.is_alive()


AFTER_A_FORK = """
import os, sqlite3
desk = Desk(SqliteStore(sys.argv[1], library="sqlite3"))
connection = sqlite3.connect(sys.argv[1])
desk.intake.enqueue_within(connection, [Job("not committed")])
connection.rollback()
connection.close()
child = os.fork()
if not child:
    connection = sqlite3.connect(sys.argv[1])
    with connection:
        desk.intake.enqueue_within(connection, [Job("q")])
    desk.store.close()
    os._exit(0)
say(os.waitpid(child, 0)[1])
"""


def test_a_child_rings_for_what_it_commits(path: Path) -> None:
    with closing(SqliteStore(path)) as store, closing(store.bell.listen()) as ear:
        with Process(AFTER_A_FORK, path) as process:
            assert process.hear() == "0"
            assert "q" in ear.wait(0)
        assert queued(desk_at(store)) == 1


@of_python
def test_whoever_has_read_what_others_changed_since_is_told_to_begin_anew(
    kind: Kind, store: SqliteStore, path: Path
) -> None:
    desk = desk_at(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        desk.intake.enqueue(Job("q"))
        with pytest.raises(StoreLocked, match="BEGIN IMMEDIATE"):
            desk.intake.enqueue_within(connection, [Job("q")])
        connection.execute("ROLLBACK")
        desk.intake.enqueue_within(connection, [Job("q")])
    assert queued(desk) == 2


# -- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "other", "words"),
    [
        (KINDS[5], sqlite3.connect, r"of sqlite3 cannot be shared .* add \?library=sqlite3"),
        (KINDS[0], apsw.Connection, r"of apsw cannot be shared .* add \?library=apsw"),
    ],
    ids=["sqlite3", "apsw"],
)
def test_a_connection_of_another_library_is_refused(
    kind: Kind, other: Any, words: str, app: Stoker
) -> None:
    task = app.task(name="work")(lambda: None)
    with closing(other(":memory:")) as connection, pytest.raises(BadInput, match=words):
        task.within(connection).enqueue()


@plain
def test_a_connection_to_another_file_is_refused(kind: Kind, app: Stoker, tmp_path: Path) -> None:
    task = app.task(name="work")(lambda: None)
    for other in (tmp_path / "shop.db", Path(":memory:")):
        with (
            kind.opened(other) as connection,
            pytest.raises(BadInput, match=r"leads to another file; it has to be one to .*jobs"),
        ):
            task.within(connection).enqueue()


@of_python
def test_a_file_that_is_only_attached_is_refused(
    kind: Kind, app: Stoker, path: Path, tmp_path: Path
) -> None:
    task = app.task(name="work")(lambda: None)
    assert queued(app.desk) == 0
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("ATTACH ? AS jobs", (str(path),))
        with pytest.raises(BadInput, match="does not commit two files as one"):
            task.within(connection).enqueue()


@of_python
@pytest.mark.parametrize(
    ("connection", "words"),
    [
        ("jobs.db", "a str is no connection that can be used here; it must be of sqlite3"),
        (AsyncSession(), "that are awaited cannot be used here"),
    ],
)
def test_what_is_no_connection_is_refused(
    kind: Kind, connection: object, words: str, app: Stoker
) -> None:
    with pytest.raises(BadInput, match=words):
        app.task(name="work")(lambda: None).within(connection).enqueue()


# -- ending --------------------------------------------------------------------------------


@contextmanager
def at_work(app: Stoker) -> Iterator[None]:
    worker = app.worker(concurrency=2)
    worker.start()
    try:
        yield
    finally:
        worker.stop()


@plain
def test_an_effect_and_the_end_of_its_job_are_committed_together(
    kind: Kind, app: Stoker, path: Path
) -> None:
    @app.task(retry="fixed 10ms x2")
    def work(context: Context) -> dict[str, int]:
        with kind.opened(path) as own:
            run(own, "INSERT INTO effect VALUES (1)")
            context.finish({"try": context.attempt}, within=own)
            if context.attempt == 1:
                raise Spoilt
        return {"does not count": 0}

    job = work.enqueue()
    make_effects(kind, path)
    with at_work(app):
        assert job.wait(timeout="60s") == {"try": 2}
    assert effects(kind, path) == 1
    assert_balanced(app.desk.store)


@kinds
def test_a_job_has_ended_when_the_transaction_commits(
    kind: Kind, store: SqliteStore, path: Path
) -> None:
    desk = desk_at(store)
    desk.control.configure("q", QueueSettings(key_capacity=1))
    desk.intake.enqueue_many([Job("q", key="k", payload=b"long" * 1000), Job("q", key="k")])
    (job,) = desk.dispatch.claim(["q"], 2)
    with closing(store.bell.listen()) as ear:
        with kind.opened(path) as own:
            desk.report.finish_within(own, job, b"result")
            assert store.get([job.id])[job.id].state is State.RUNNING
        assert ear.wait(10) == {"q"}, "room was made"
    assert store.get([job.id])[job.id].result == b"result"
    assert len(desk.dispatch.claim(["q"], 2)) == 1
    assert_balanced(store)


@of_python
def test_a_handler_that_does_not_commit_has_failed(kind: Kind, app: Stoker, path: Path) -> None:
    @app.task
    def work(context: Context) -> None:
        with closing(sqlite3.connect(path)) as own:
            context.finish(within=own)

    with at_work(app), pytest.raises(JobFailed, match="was not committed"):
        work.enqueue().wait(timeout="60s")


def take_effect(kind: Kind, path: Path, end: Callable[[Any], object]) -> None:
    with kind.opened(path) as own:
        run(own, "INSERT INTO effect VALUES (1)")
        end(own)


@kinds
def test_whoever_has_lost_its_lease_cannot_commit(kind: Kind, app: Stoker, path: Path) -> None:
    desk = app.desk
    desk.intake.enqueue(Job("q"))
    (job,) = desk.dispatch.claim(["q"])
    desk.report.release(job)
    (again,) = desk.dispatch.claim(["q"])
    make_effects(kind, path)
    with pytest.raises(LeaseLost, match=f"job {job.id} is no longer yours"):
        take_effect(kind, path, lambda own: desk.report.finish_within(own, job))
    with kind.opened(path) as own:
        run(own, "INSERT INTO effect VALUES (2)")
        with pytest.raises(LeaseLost):
            desk.report.finish_within(own, job)  # and goes on as if nothing had happened
    assert effects(kind, path) == 0
    assert desk.store.get([job.id])[job.id] == again


# -- the same as any other way ---------------------------------------------------------------


class WithinStore(SqliteStore):
    """A store that lets every Change be committed by a connection of somebody else's."""

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        receipts = [self._committed(change) for change in changes]
        return Answer(receipts, super().transact((), claims).grants)

    def _committed(self, change: Change) -> Any:
        kind = next(kind for kind in KINDS if kind.library == self.file.library.name)
        try:
            with kind.opened(Path(self.path)) as connection:
                return self.commit_within(connection, change)
        except LeaseLost:
            return super().transact([change]).receipts[0]  # which tells what is stale


@plain
@pytest.mark.parametrize("seed", range(3))
def test_random_lives_agree_when_others_commit(seed: int, kind: Kind, path: Path) -> None:
    clock = VirtualClock()
    store = WithinStore(path, sync=Sync.NORMAL, clock=clock, library=kind.library)
    lives = Lives(SeededChooser(seed), clock, MemoryStore(clock), store)
    for step in range(1, 121):
        lives.step()
        if step % 20 == 0:
            assert_balanced(store)
    store.close()
