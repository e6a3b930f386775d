"""Many threads and processes at one file: nothing is lost, doubled or seen by halves."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from stoker.desk import Desk
from stoker.kernel.change import Change
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Finished
from stoker.kernel.policy import Policy
from stoker.store import Filter, Forgettable
from stoker.store.coalescer import Coalescer, _Call
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.driver import Sync
from tests.engines import SECOND, VirtualClock
from tests.model.sqlite_books import assert_books_balance
from tests.store.sqlite.busy_day import desk_at
from tests.store.sqlite.connections import reader, writer
from tests.store.sqlite.process import Process

THREADS = 16


def in_threads(acts: list[Callable[[], None]]) -> list[threading.Thread]:
    threads = [threading.Thread(target=act) for act in acts]
    for thread in threads:
        thread.start()
    return threads


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join()


@contextmanager
def commits_counted(store: SqliteStore) -> Iterator[list[str]]:
    """All commits made by the store."""
    made: list[str] = []

    def count(_: apsw.Cursor, sql: str, __: Any) -> bool:
        if sql == "COMMIT":
            made.append(sql)
        return True

    writer(store).exec_trace = count
    yield made
    writer(store).exec_trace = None


class CountedLine(deque[_Call]):
    """The line of those who wait for a commit; tells whenever somebody joins it."""

    def __init__(self) -> None:
        super().__init__()
        self.joined = threading.Semaphore(0)

    def append(self, call: _Call) -> None:
        super().append(call)
        self.joined.release()


def act_in_line(desk: Desk, store: SqliteStore, acts: list[Callable[[], None]]) -> None:
    """Each act in a thread of its own, all of them begun before the first may commit."""
    coalescer = Coalescer(store)
    line = coalescer._waiting = CountedLine()
    desk.clerk.transact = coalescer.transact
    with store._lock:
        threads = in_threads(acts)
        # One of them found nobody before it, and stands at the lock.
        assert all(line.joined.acquire(timeout=60) for _ in acts[1:])
    join(threads)


# -- threads -------------------------------------------------------------------------------


def test_sixteen_threads_at_one_desk_do_every_job_once(
    store: SqliteStore, clock: VirtualClock
) -> None:
    desk = Desk(store)
    done: deque[int] = deque()
    placed: deque[int] = deque()

    def work(number: int) -> None:
        for _ in range(5):
            jobs = [Job("q", key=f"{number % 3}") for _ in range(number % 4 + 1)]
            placed.extend(placement.id for placement in desk.intake.enqueue_many(jobs))
            for job in desk.dispatch.claim(["q"], 3):
                desk.report.finish(job)
                done.append(job.id)

    join(in_threads([lambda n=n: work(n) for n in range(THREADS)]))  # type: ignore[misc]
    while jobs := desk.dispatch.claim(["q"], 100):
        desk.report.many([(job, Finished()) for job in jobs])
        done.extend(job.id for job in jobs)
    assert sorted(placed) == [*range(1, len(placed) + 1)]
    assert Counter(done) == Counter(placed)
    (view,) = store.survey()
    assert view.counts[State.FINISHED] == len(placed) == THREADS * 5 * 10 // 4
    assert_books_balance(store.path)


def test_those_who_wait_together_are_committed_together(store: SqliteStore) -> None:
    desk = desk_at(store)
    placed: deque[int] = deque()

    def enqueue() -> None:
        placed.append(desk.intake.enqueue(Job("q")).id)

    with commits_counted(store) as commits:
        act_in_line(desk, store, [enqueue] * THREADS)
    assert sorted(placed) == [*range(1, THREADS + 1)]
    assert len(commits) <= 2


def test_one_caller_who_fails_does_not_fail_the_others(store: SqliteStore) -> None:
    desk = desk_at(store)
    placed: deque[int] = deque()
    failed: deque[Exception] = deque()

    def good() -> None:
        placed.append(desk.intake.enqueue(Job("q")).id)

    def bad() -> None:
        try:
            desk.clerk.transact([Change(inserts=(Job("q", rank=2**80),))])
        except OverflowError as error:
            failed.append(error)

    act_in_line(desk, store, [*[good] * 7, bad, *[good] * 8])
    assert (len(placed), len(failed)) == (15, 1)
    assert len(store.find(Filter())) == 15


# -- snapshots -----------------------------------------------------------------------------


@contextmanager
def meanwhile(store: SqliteStore, statement: str, act: Callable[[], None]) -> Iterator[None]:
    """Somebody acts just before the store, in the midst of an answer, asks its next question."""
    acts = [act]

    def listen(_: apsw.Cursor, sql: str, __: Any) -> bool:
        if statement in sql and acts:
            acts.pop()()
        return True

    reader(store).exec_trace = listen
    yield
    reader(store).exec_trace = None
    assert not acts


@pytest.mark.parametrize(
    "statement", ["FROM job WHERE id IN", "FROM queue WHERE id", "FROM body", "FROM policy"]
)
def test_a_job_that_goes_while_it_is_looked_for_is_seen_whole(
    statement: str, store: SqliteStore, clock: VirtualClock
) -> None:
    other = SqliteStore(store.path, sync=Sync.NORMAL, clock=clock)
    desk = desk_at(other)
    job_id = desk.intake.enqueue(Job("q", payload=bytes(5000), policy=Policy(timeout=SECOND))).id
    desk.control.cancel(job_id)
    clock.pass_(10 * 24 * 3600)

    def forget_it() -> None:
        desk.control.delete(job_id)
        other.tidy()

    with meanwhile(store, statement, forget_it):
        found = store.find(Forgettable())
    assert [(job.id, job.queue, job.payload) for job in found] == [(job_id, "q", bytes(5000))]
    assert store.find(Forgettable()) == []
    other.close()


# -- processes -----------------------------------------------------------------------------


def test_processes_share_the_jobs_among_them(store: SqliteStore) -> None:
    work = """
        desk = Desk(SqliteStore(sys.argv[1]))
        say("ready")
        wait_for_a_word()
        done = 0
        while jobs := desk.dispatch.claim(["q"], 5):
            for job in jobs:
                desk.report.finish(job)
            done += len(jobs)
        say(done)
    """
    desk_at(store).intake.enqueue_many([Job("q") for _ in range(300)])
    with ExitStack() as stack:
        others = [stack.enter_context(Process(work, store.path)) for _ in range(3)]
        assert [other.hear() for other in others] == ["ready"] * 3
        for other in others:
            other.tell("go")
        assert sum(int(other.hear()) for other in others) == 300
    (view,) = store.survey()
    assert view.counts[State.FINISHED] == 300
    assert_books_balance(store.path)


def test_a_forked_child_works_on_with_connections_of_its_own(path: Path) -> None:
    fork = """
        import os
        store = SqliteStore(sys.argv[1])
        desk = Desk(store)
        desk.intake.enqueue(Job("parent"))
        child = os.fork()
        name = "parent" if child else "child"
        for _ in range(20):
            desk.intake.enqueue(Job(name))
        if child == 0:
            counts = {view.name: view.counts[0] for view in store.survey()}
            os._exit(0 if counts["child"] == 20 else 1)
        _, status = os.waitpid(child, 0)
        desk.intake.enqueue(Job("parent"))
        store.close()
        say(f"child ended with {status}")
    """
    with Process(fork, path) as process:
        assert process.hear() == "child ended with 0"
    with closing(SqliteStore(path)) as store:
        counts = {view.name: view.counts[State.QUEUED] for view in store.survey()}
        assert counts == {"parent": 22, "child": 20}
        assert_books_balance(store.path)
