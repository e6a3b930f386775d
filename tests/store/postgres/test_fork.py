"""A store that was opened before a fork works on both sides of it."""

from __future__ import annotations

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.store import Store
from stoker.store.postgres import PostgresStore
from tests.faults.test_fork import exit_code, fork_beside_busy_threads, forked


def queued(store: Store) -> int:
    return sum(view.counts[State.QUEUED] for view in store.survey())


def test_parent_and_child_go_on_side_by_side(url: str) -> None:
    store = PostgresStore(url)
    desk = Desk(store)
    ear = store.bell.listen()
    desk.intake.enqueue(Job("q"))

    def live() -> None:
        (job,) = desk.dispatch.claim(["q"])
        desk.report.finish(job)
        desk.intake.enqueue(Job("child's"))
        store.close()

    child = forked(live)
    desk.intake.enqueue(Job("r"))
    assert exit_code(child) == 0
    desk.intake.enqueue(Job("r"))
    assert queued(store) == 3
    heard: set[str] = set()
    while "child's" not in heard:  # the parent's ear is still its own
        heard |= ear.wait(10)
    store.close()


def test_a_fork_beside_busy_threads_neither_hangs_the_child_nor_repeats_the_threads(
    url: str,
) -> None:
    store = PostgresStore(url)
    fork_beside_busy_threads(store, 10)
    store.close()
