"""What a call costs does not grow with what lies in the file. It is counted in steps of SQLite's
machine, which are the same on every computer and at every hour."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from stoker.desk import Desk
from stoker.kernel.change import Change
from stoker.kernel.job import Job
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.driver import Sync
from tests.engines import START, VirtualClock
from tests.store.flat_acts import (
    DAY,
    ask_for_the_next_due,
    beat_for_all,
    claim_and_finish,
    claim_ten,
    enqueue_ten,
    list_the_schedules,
    look_for_the_adrift,
    look_for_the_lost,
    look_for_the_old,
    look_for_trouble,
    start_all,
    survey,
)
from tests.store.sqlite.busy_day import desk_at
from tests.store.sqlite.connections import reader, writer

BATCH = 10_000


def fill(desk: Desk, count: int, **facts: Any) -> None:
    """So many jobs, all alike."""
    job = Job("q", **{"due_at": START, **facts})
    for start in range(0, count, BATCH):
        size = min(BATCH, count - start)
        desk.store.transact([Change(inserts=(job,) * size)])


# -- what lies in the file -----------------------------------------------------------------


def many_queued(desk: Desk, count: int) -> None:
    fill(desk, count)


def many_delayed_in_front(desk: Desk, count: int) -> None:
    fill(desk, count // 2, rank=-1, due_at=START + DAY)
    fill(desk, count // 2, due_at=START + DAY)
    fill(desk, 100)


def many_behind_a_full_key(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(key_capacity=1))
    fill(desk, 1, key="full")
    start_all(desk)
    fill(desk, count, key="full", rank=-1)
    fill(desk, 100)
    fill(desk, 100, key="free")


def many_behind_a_full_queue(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(capacity=1))
    fill(desk, 1)
    start_all(desk)
    fill(desk, count)
    fill(desk, 100, weight=0)


def many_lanes(desk: Desk, count: int) -> None:
    lanes = [Job("q", due_at=START - count + n, key=f"key-{n}") for n in range(count)]
    desk.store.transact([Change(inserts=tuple(lanes * 3))])


def many_keys_over_their_rate(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(key_rate=parse_rate("1 per hour")))
    keys = [Job("q", due_at=START - DAY + n, key=f"key-{n}") for n in range(count)]
    desk.store.transact([Change(inserts=tuple(keys * 2))])
    start_all(desk)
    fill(desk, 100)


def many_of_a_full_task(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(tasks={"t": 1}))
    jobs = [Job("q", "t", due_at=START - DAY + n, key=f"key-{n}") for n in range(count)]
    desk.store.transact([Change(inserts=tuple(jobs))])
    start_all(desk)
    fill(desk, 100)


def many_who_take_turns(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(fair=True))
    many_lanes(desk, count)


def many_turns_that_are_not_due(desk: Desk, count: int) -> None:
    desk.control.configure("q", QueueSettings(fair=True))
    jobs = [Job("q", due_at=START + DAY, key=f"key-{n}") for n in range(count)]
    desk.store.transact([Change(inserts=tuple(jobs))])
    fill(desk, 100)


def many_other_queues(desk: Desk, count: int) -> None:
    others = [Job(f"other-{n}", due_at=START) for n in range(count)]
    desk.store.transact([Change(inserts=tuple(others))])
    fill(desk, 100)


def many_running(desk: Desk, count: int) -> None:
    session = desk.dispatch.open_session(ttl=DAY)
    fill(desk, count)
    start_all(desk, session=session, visibility=DAY)
    fill(desk, 100)


def many_kept(desk: Desk, count: int) -> None:
    fill(desk, count)
    for job in desk.store.get(range(1, count + 1)):
        desk.control.cancel(job)
    fill(desk, 100)


class Case(NamedTuple):
    """The same done twice: with a few and with many of something in the file."""

    fill: Callable[[Desk, int], None]
    act: Callable[[Desk], None]
    few: int
    many: int


CASES = [
    Case(many_queued, claim_ten, 1000, 100_000),
    Case(many_queued, enqueue_ten, 1000, 100_000),
    Case(many_queued, claim_and_finish, 1000, 100_000),
    Case(many_queued, ask_for_the_next_due, 1000, 100_000),
    Case(many_queued, survey, 1000, 100_000),
    Case(many_queued, list_the_schedules, 1000, 100_000),
    Case(many_delayed_in_front, claim_ten, 10, 100_000),
    Case(many_delayed_in_front, ask_for_the_next_due, 10, 100_000),
    Case(many_behind_a_full_key, claim_ten, 10, 50_000),
    Case(many_behind_a_full_queue, claim_ten, 10, 50_000),
    Case(many_lanes, claim_ten, 20, 1000),
    Case(many_keys_over_their_rate, claim_ten, 10, 1000),
    Case(many_of_a_full_task, claim_ten, 10, 1000),
    Case(many_who_take_turns, claim_ten, 20, 1000),
    Case(many_turns_that_are_not_due, claim_ten, 10, 1000),
    Case(many_turns_that_are_not_due, ask_for_the_next_due, 10, 1000),
    Case(many_other_queues, claim_ten, 10, 1000),
    Case(many_running, beat_for_all, 100, 20_000),
    Case(many_running, look_for_the_lost, 100, 20_000),
    Case(many_running, look_for_trouble, 100, 5000),
    Case(many_running, claim_and_finish, 100, 20_000),
    Case(many_kept, look_for_the_old, 10, 1000),
    Case(many_kept, look_for_the_adrift, 10, 1000),
    Case(many_kept, look_for_trouble, 10, 1000),
]


def steps_of(store: SqliteStore, act: Callable[[], None]) -> int:
    """How many steps SQLite takes for it."""
    taken: list[int] = []
    for connection in (writer(store), reader(store)):
        connection.trace_v2(
            apsw.SQLITE_TRACE_PROFILE,
            lambda event: taken.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
        )
    act()
    for connection in (writer(store), reader(store)):
        connection.trace_v2(0, None)
    return sum(taken)


def cost_of(case: Case, count: int, path: Path) -> tuple[int, int]:
    """What it costs at first, and what it costs from then on."""
    store = SqliteStore(path, sync=Sync.NORMAL, clock=VirtualClock())
    desk = desk_at(store)
    case.fill(desk, count)
    first, later = (steps_of(store, lambda: case.act(desk)) for _ in range(2))
    store.close()
    return first, later


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.act.__name__}-{case.fill.__name__}"
)
def test_a_call_costs_the_same_however_much_there_is_that_does_not_concern_it(
    case: Case, tmp_path: Path
) -> None:
    few = cost_of(case, case.few, tmp_path / "few.db")
    many = cost_of(case, case.many, tmp_path / "many.db")
    assert few == pytest.approx(many, rel=0.1)


def test_the_measure_notices_a_cost_that_grows(store: SqliteStore) -> None:
    def count_all() -> None:
        reader(store).execute("SELECT count(*) FROM job WHERE name = ?", ("x",)).fetchall()

    desk = desk_at(store)
    fill(desk, 100)
    few = steps_of(store, count_all)
    fill(desk, 1000)
    assert steps_of(store, count_all) > 5 * few
