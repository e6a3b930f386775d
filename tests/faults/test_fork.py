"""A store that was opened before a fork works on both sides of it, whoever leaves first."""

from __future__ import annotations

import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.store import Store
from stoker.store.open import open_store
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.gate import Gate

LONGEST_LIFE = 60
"""Seconds after which a child that hangs is ended by the system."""


def forked(task: Callable[[], None]) -> int:
    """Do something in a forked child; its pid."""
    with warnings.catch_warnings():
        # Newer Pythons advise against forking beside threads, which is just what is tested here.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LONGEST_LIFE)
        task()
        code = 0
    except BaseException:  # noqa: BLE001 - nothing of the child may reach the test runner
        traceback.print_exc()
    finally:
        os._exit(code)


def exit_code(pid: int) -> int:
    """How a child ended; below zero, the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Signpost:
    """One process waits at it until another has come by."""

    def __init__(self) -> None:
        self._exit, self._entrance = os.pipe()

    def pass_by(self) -> None:
        os.write(self._entrance, b"x")

    def wait(self) -> None:
        assert os.read(self._exit, 1) == b"x"

    def remove(self) -> None:
        os.close(self._exit)
        os.close(self._entrance)


def url_in(folder: Path) -> str:
    return f"sqlite:///{folder / 'jobs.db'}"


def queued(store: Store) -> int:
    return sum(view.counts[State.QUEUED] for view in store.survey())


def test_parent_and_child_go_on_side_by_side(tmp_path: Path) -> None:
    store = open_store(url_in(tmp_path))
    desk = Desk(store)
    desk.intake.enqueue(Job("q", name="parent's"))

    def live() -> None:
        (job,) = desk.dispatch.claim(["q"])
        assert job.name == "parent's"
        desk.report.finish(job)
        desk.intake.enqueue(Job("q", name="child's"))
        store.close()

    child = forked(live)
    desk.intake.enqueue(Job("r"))
    assert exit_code(child) == 0
    desk.intake.enqueue(Job("r"))
    assert [job.name for job in desk.dispatch.claim(["q"])] == ["child's"]
    assert queued(store) == 2
    store.close()


def test_what_a_child_was_promised_stays_when_its_parent_closes_the_store(tmp_path: Path) -> None:
    store = open_store(url_in(tmp_path))
    a_child_outlives_its_parent(store, nullcontext())
    store = open_store(url_in(tmp_path))
    assert queued(store) == 3
    store.close()


def test_a_fork_waits_for_nobody_behind_the_gate(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db", gate_timeout=0.1)
    gate = Gate(f"{store.path}-gate", LONGEST_LIFE)
    a_child_outlives_its_parent(store, gate)
    gate.close()
    store = SqliteStore(tmp_path / "jobs.db")
    assert queued(store) == 3
    store.close()


def a_child_outlives_its_parent(store: Store, at_the_fork: AbstractContextManager[None]) -> None:
    """Parent and child use the store, the parent closes it, and the child goes on alone."""
    desk, may_use, used, closed = Desk(store), Signpost(), Signpost(), Signpost()
    desk.intake.enqueue(Job("q"))

    def outlive() -> None:
        may_use.wait()
        desk.intake.enqueue(Job("q"))
        used.pass_by()
        closed.wait()
        desk.intake.enqueue(Job("q"))

    with at_the_fork:
        child = forked(outlive)
    may_use.pass_by()
    used.wait()
    store.close()
    closed.pass_by()
    assert exit_code(child) == 0
    for post in (may_use, used, closed):
        post.remove()


def fork_beside_busy_threads(store: Store, count: int) -> None:
    """Fork children while threads enqueue: each of them does one thing, once."""
    enough = threading.Event()
    desk, placed = Desk(store), list[int]()

    def keep_busy() -> None:
        while not enough.is_set():
            placed.append(desk.intake.enqueue(Job("thread's")).id)

    def enqueue_one() -> None:
        desk.intake.enqueue(Job("child's"))

    threads = [threading.Thread(target=keep_busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    codes = [exit_code(child) for child in [forked(enqueue_one) for _ in range(count)]]
    enough.set()
    for thread in threads:
        thread.join()
    assert codes == [0] * count
    counts = {view.name: view.counts[State.QUEUED] for view in store.survey()}
    assert counts == {"child's": count, "thread's": len(placed)}


def test_a_fork_beside_a_busy_thread_neither_hangs_the_child_nor_repeats_the_thread(
    tmp_path: Path,
) -> None:
    store = open_store(url_in(tmp_path))
    fork_beside_busy_threads(store, 20)
    store.close()
