"""Who goes first: rank, then time, then arrival; or time before rank, if the queue says so."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.kernel.queue import Order, QueueSettings
from tests.engines import VirtualClock
from tests.store.conformance.acts import MINUTE, Facts, put, running, seen, take_all

# (minutes past ten, rank), as people would write down what is to be done.
TABLE = [(40, 7), (33, 100), (32, 700), (40, 1), (33, 50)]
KINDS: dict[str, Facts] = {"plain": {}, "keyed": {"key": "k"}, "free": {"weight": 0}}

RANK_TIME = QueueSettings(order=Order.RANK_TIME)
TIME_RANK = QueueSettings(order=Order.TIME_RANK)


def ranks(desk: Desk, *queues: str) -> list[int]:
    return [job.rank for job in desk.dispatch.claim(queues or ("q",), 1000)]


def fill(desk: Desk, clock: VirtualClock, **facts: Any) -> None:
    for minute, rank in TABLE:
        put(desk, rank=rank, due_at=clock.now + minute * MINUTE, **facts)
    clock.pass_(3600)


kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@kinds
def test_rank_goes_before_time_and_time_before_arrival(
    desk: Desk, clock: VirtualClock, kind: Facts
) -> None:
    now = clock.now
    third = put(desk, rank=1, due_at=now - 1, **kind)
    second = put(desk, rank=1, due_at=now - 2, **kind)
    fourth = put(desk, rank=1, due_at=now - 1, **kind)
    first = put(desk, rank=0, due_at=now, **kind)
    last = put(desk, rank=2, due_at=now - 9, **kind)
    assert take_all(desk) == [first, second, third, fourth, last]


@kinds
def test_a_queue_by_rank_gives_out_the_table_by_rank(
    desk: Desk, clock: VirtualClock, kind: Facts
) -> None:
    fill(desk, clock, **kind)
    assert ranks(desk) == [1, 7, 50, 100, 700]


@kinds
def test_a_queue_by_time_gives_out_the_table_by_time(
    desk: Desk, clock: VirtualClock, kind: Facts
) -> None:
    desk.control.configure("q", TIME_RANK)
    fill(desk, clock, **kind)
    assert ranks(desk) == [700, 50, 100, 1, 7]


@kinds
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (RANK_TIME, TIME_RANK, [700, 50, 100, 1, 7]),
        (TIME_RANK, RANK_TIME, [1, 7, 50, 100, 700]),
    ],
)
def test_a_new_order_holds_at_once_for_jobs_that_are_queued_already(
    desk: Desk,
    clock: VirtualClock,
    kind: Facts,
    before: QueueSettings,
    after: QueueSettings,
    expected: list[int],
) -> None:
    desk.control.configure("q", before)
    fill(desk, clock, **kind)
    desk.control.configure("q", after)
    assert ranks(desk) == expected


def test_a_new_order_holds_for_jobs_that_come_back_and_for_all_kinds_together(
    desk: Desk, clock: VirtualClock
) -> None:
    out = running(desk, rank=50, due_at=clock.now - 5)
    waiting = [put(desk, rank=rank, key=f"k{rank}") for rank in (70, 60)]
    free = put(desk, rank=80, weight=0)
    plain = put(desk, rank=65)
    desk.control.configure("q", TIME_RANK)
    desk.report.release(out)
    late = put(desk, rank=1, due_at=clock.now + 1)
    assert [job.id for job in desk.dispatch.claim(["q"], 2)] == [out.id, waiting[1]]
    desk.control.configure("q", RANK_TIME)
    clock.pass_(1)
    assert take_all(desk) == [late, plain, waiting[0], free]


def test_jobs_of_several_kinds_share_one_order(desk: Desk) -> None:
    numbers = list(range(60))
    random.Random(1).shuffle(numbers)
    for number in numbers:
        put(desk, rank=number, **KINDS[["plain", "keyed", "free"][number % 3]])
    assert ranks(desk) == sorted(numbers)


@pytest.mark.parametrize("order", [RANK_TIME, TIME_RANK], ids=["rank-time", "time-rank"])
def test_ranks_may_be_negative_and_huge(desk: Desk, order: QueueSettings) -> None:
    desk.control.configure("q", order)
    wanted = [-(2**62), -1_000_000_007, -1, 0, 1, 1_000_000_007, 2**62]
    for rank in reversed(wanted):
        put(desk, rank=rank)
        put(desk, rank=rank, key="k")
    given = ranks(desk)
    assert given == [rank for rank in wanted for _ in range(2)]


def test_the_order_of_arrival_holds_among_equals(desk: Desk) -> None:
    ids = [put(desk, key=f"k{number % 3}" if number % 2 else None) for number in range(12)]
    assert take_all(desk) == ids


def test_several_queues_in_one_claim_keep_the_order_of_rank(
    desk: Desk, clock: VirtualClock
) -> None:
    placed = desk.intake.enqueue_many(
        [
            Job("a", rank=3),
            Job("b", rank=1),
            Job("c", rank=2),
            Job("a", rank=1),
            Job("b", rank=3, due_at=clock.now - 1),
            Job("c", rank=1, key="k"),
        ]
    )
    a3, b1, c2, a1, b3, c1 = (each.id for each in placed)
    assert take_all(desk, "a", "b", "c") == [b1, a1, c1, c2, b3, a3]


def test_naming_a_queue_twice_gives_its_jobs_once(desk: Desk) -> None:
    ids = [put(desk), put(desk)]
    assert take_all(desk, "q", "q") == ids


def test_a_limit_takes_the_foremost_of_all_queues(desk: Desk) -> None:
    for rank in range(10):
        put(desk, "even" if rank % 2 == 0 else "odd", rank=rank)
    assert [job.rank for job in desk.dispatch.claim(["odd", "even"], 3)] == [0, 1, 2]
    assert ranks(desk, "odd", "even") == [3, 4, 5, 6, 7, 8, 9]


def test_a_job_that_comes_back_stands_in_its_old_place(desk: Desk) -> None:
    first, second = put(desk), put(desk)
    (job,) = desk.dispatch.claim(["q"])
    desk.report.release(job)
    assert take_all(desk) == [first, second]


def test_a_job_can_be_sent_to_the_back(desk: Desk, clock: VirtualClock) -> None:
    first, second = put(desk), put(desk)
    (job,) = desk.dispatch.claim(["q"])
    clock.pass_(1)
    desk.report.release(job, due_at=clock.now)
    assert take_all(desk) == [second, first]


def test_a_job_whose_rank_is_edited_moves_to_its_new_place(desk: Desk) -> None:
    first, second, third = put(desk), put(desk, key="k"), put(desk)
    desk.control.edit(third, {"rank": -1})
    desk.control.edit(second, {"rank": -2})
    assert seen(desk, second).rank == -2
    assert take_all(desk) == [second, third, first]
