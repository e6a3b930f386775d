"""Capacity by key: a region, a tenant or a server gets its share, and nobody passes in front."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State, load
from stoker.kernel.outcome import Awaits
from stoker.kernel.queue import Order, QueueSettings
from stoker.store import Store
from stoker.watch.recover import recover
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    EVERYTHING,
    SECOND,
    put,
    running,
    seen,
    state,
    take,
    take_all,
)

ORDERS = pytest.mark.parametrize("order", Order, ids=[order.value for order in Order])


def share(desk: Desk, key_capacity: float | None = 1, **more: Any) -> None:
    settings = QueueSettings(key_capacity=key_capacity, **more)
    desk.control.configure("q", settings)


def done(desk: Desk, job_id: int) -> None:
    desk.report.finish(seen(desk, job_id))


@ORDERS
def test_never_more_of_one_key_run_than_its_share(desk: Desk, order: Order) -> None:
    share(desk, 3, order=order)
    ids = [put(desk, key="east") for _ in range(10)]
    assert take_all(desk) == ids[:3]
    done(desk, ids[1])
    assert take_all(desk) == ids[3:4]
    assert take_all(desk) == []


@ORDERS
def test_other_keys_and_jobs_without_a_key_pass_a_key_that_is_full(
    desk: Desk, order: Order
) -> None:
    share(desk, order=order)
    east, east_too, west, plain = (
        put(desk, key="east"),
        put(desk, key="east"),
        put(desk, key="west"),
        put(desk),
    )
    assert take_all(desk) == [east, west, plain]
    done(desk, west)
    assert take_all(desk) == []
    done(desk, east)
    assert take_all(desk) == [east_too]


def test_a_flood_of_one_key_leaves_the_others_their_share(desk: Desk) -> None:
    share(desk, None, capacity=100, keys={"east": 40, "north": 30, "west": 30})
    desk.intake.enqueue_many([Job("q", key="east")] * 200)
    desk.intake.enqueue_many([Job("q", key="north")] * 50)
    desk.intake.enqueue_many([Job("q", key="west")] * 50)
    jobs = desk.dispatch.claim(["q"], 1000)
    by_key = {key: sum(job.key == key for job in jobs) for key in ("east", "north", "west")}
    assert by_key == {"east": 40, "north": 30, "west": 30}


def test_a_key_may_have_a_limit_of_its_own(desk: Desk) -> None:
    share(desk, 1, keys={"big": 2, "tiny": 0.5})
    ids = {
        (key, number): put(desk, key=key) for key in ("big", "tiny", "usual") for number in range(3)
    }
    assert take_all(desk) == [ids["big", 0], ids["big", 1], ids["tiny", 0], ids["usual", 0]]


def test_only_named_keys_are_limited_when_there_is_no_general_share(desk: Desk) -> None:
    share(desk, None, keys={"slow": 1})
    slow, fast, _ = put(desk, key="slow"), put(desk, key="fast"), put(desk, key="slow")
    fast_too = put(desk, key="fast")
    assert take_all(desk) == [slow, fast, fast_too]


@pytest.mark.parametrize(("weight", "expected"), [(500, 4), (2000, 1), (5000, 1), (0, 6)])
def test_the_share_of_a_key_counts_weights(desk: Desk, weight: int, expected: int) -> None:
    share(desk, 2)
    desk.intake.enqueue_many([Job("q", key="k", weight=weight)] * 6)
    assert len(take_all(desk)) == expected


def test_a_heavy_job_is_not_overtaken_within_its_key(desk: Desk) -> None:
    share(desk, 2)
    first = put(desk, key="k")
    heavy, light, other = put(desk, key="k", weight=2000), put(desk, key="k"), put(desk, key="l")
    assert take_all(desk) == [first, other]
    done(desk, first)
    assert take_all(desk) == [heavy]
    done(desk, heavy)
    assert take_all(desk) == [light]


def test_jobs_of_weight_zero_pass_a_key_that_is_full(desk: Desk) -> None:
    share(desk)
    first, _, free = put(desk, key="k"), put(desk, key="k"), put(desk, key="k", weight=0)
    assert take_all(desk) == [first, free]


def test_both_the_queue_and_the_key_must_have_room(desk: Desk) -> None:
    share(desk, 2, capacity=3)
    a = [put(desk, key="a") for _ in range(3)]
    b = [put(desk, key="b") for _ in range(3)]
    assert take_all(desk) == [*a[:2], b[0]]
    done(desk, a[0])
    assert take_all(desk) == [a[2]]
    done(desk, b[0])
    assert take_all(desk) == [b[1]]


def test_a_full_key_holds_up_no_other_even_when_the_queue_is_nearly_full(desk: Desk) -> None:
    share(desk, 1, capacity=2)
    first = put(desk, key="a")
    put(desk, key="a")
    plain = put(desk)
    assert take_all(desk) == [first, plain]


# -- ranks and times within a key ----------------------------------------------------------


def test_within_a_key_the_better_rank_goes_first(desk: Desk) -> None:
    share(desk)
    worse, better = put(desk, key="k", rank=5), put(desk, key="k", rank=1)
    other = put(desk, key="l", rank=3)
    assert take_all(desk) == [better, other]
    best = put(desk, key="k", rank=-1)
    assert take_all(desk) == []
    done(desk, better)
    assert take_all(desk) == [best]
    done(desk, best)
    assert take_all(desk) == [worse]


def test_a_better_job_of_a_key_that_is_not_due_gives_way_until_it_is(
    desk: Desk, clock: VirtualClock
) -> None:
    share(desk)
    better = put(desk, key="k", rank=0, due_at=clock.now + 10 * SECOND)
    first, second = put(desk, key="k", rank=5), put(desk, key="k", rank=5)
    assert take_all(desk) == [first]
    assert take_all(desk) == []
    clock.pass_(10)
    assert take_all(desk) == []
    done(desk, first)
    assert take_all(desk) == [better]
    done(desk, better)
    assert take_all(desk) == [second]


def test_a_better_job_that_falls_due_is_let_into_a_key_that_was_found_full(
    desk: Desk, clock: VirtualClock
) -> None:
    share(desk, 2)
    first = put(desk, key="k", rank=5)
    heavy = put(desk, key="k", rank=5, weight=2000)
    better = put(desk, key="k", rank=0, due_at=clock.now + SECOND)
    assert take_all(desk) == [first]
    assert take_all(desk) == []
    clock.pass_(1)
    assert take_all(desk) == [better]
    done(desk, first)
    done(desk, better)
    assert take_all(desk) == [heavy]


def test_jobs_of_one_key_come_by_time_in_a_queue_by_time(desk: Desk, clock: VirtualClock) -> None:
    share(desk, order=Order.TIME_RANK)
    late = put(desk, key="k", rank=0, due_at=clock.now - 1)
    early = put(desk, key="k", rank=9, due_at=clock.now - 5)
    assert take_all(desk) == [early]
    done(desk, early)
    assert take_all(desk) == [late]


@ORDERS
def test_a_limit_of_one_claim_is_shared_by_the_keys_in_order(desk: Desk, order: Order) -> None:
    share(desk, 2, order=order)
    ids = [put(desk, key=f"k{number % 3}") for number in range(9)]
    assert take_all(desk, limit=4) == ids[:4]
    assert take_all(desk, limit=4) == ids[4:6]
    done(desk, ids[2])
    assert take_all(desk, limit=4) == ids[8:]


# -- what opens a key again ----------------------------------------------------------------


def test_a_share_that_is_raised_lets_more_in_at_once(desk: Desk) -> None:
    share(desk, 1)
    ids = [put(desk, key="k") for _ in range(5)]
    assert (take_all(desk), take_all(desk)) == (ids[:1], [])
    share(desk, 2)
    assert take_all(desk) == ids[1:2]
    share(desk, 2, keys={"k": 4})
    assert take_all(desk) == ids[2:4]
    share(desk, None)
    assert take_all(desk) == ids[4:]


def test_a_share_that_is_lowered_waits_for_those_that_run(desk: Desk) -> None:
    share(desk, 3)
    ids = [put(desk, key="k") for _ in range(4)]
    assert take_all(desk) == ids[:3]
    share(desk, 1)
    for job_id in ids[:3]:
        assert take_all(desk) == []
        done(desk, job_id)
    assert take_all(desk) == ids[3:]


def test_editing_the_key_of_a_queued_job_moves_it_to_the_other_key(desk: Desk) -> None:
    share(desk)
    first, second = put(desk, key="a"), put(desk, key="a")
    assert (take_all(desk), take_all(desk)) == ([first], [])
    desk.control.edit(second, {"key": "b"})
    assert take_all(desk) == [second]
    third = put(desk, key="b")
    assert take_all(desk) == []
    desk.control.edit(third, {"key": None})
    assert take_all(desk) == [third]


def test_editing_away_a_heavy_job_lets_those_behind_it_pass(desk: Desk) -> None:
    share(desk, 2)
    first = put(desk, key="k")
    heavy, light = put(desk, key="k", weight=2000), put(desk, key="k")
    assert (take_all(desk), take_all(desk)) == ([first], [])
    desk.control.edit(heavy, {"weight": 1000})
    assert take_all(desk) == [heavy]
    assert state(desk, light) is State.QUEUED


@pytest.mark.parametrize("act", ["cancel", "delete", "edit"])
def test_a_heavy_job_that_leaves_its_key_lets_those_behind_it_pass(desk: Desk, act: str) -> None:
    share(desk, 2)
    first = put(desk, key="k")
    heavy, light = put(desk, key="k", weight=2000), put(desk, key="k")
    assert (take_all(desk), take_all(desk)) == ([first], [])
    if act == "edit":
        desk.control.edit(heavy, {"queue": "elsewhere"})
    else:
        getattr(desk.control, act)(heavy)
    assert take_all(desk) == [light]


def test_a_wait_for_a_reply_still_takes_its_keys_room(desk: Desk) -> None:
    share(desk)
    job = running(desk, key="k")
    second = put(desk, key="k", rank=1)
    desk.report.wait(job, Awaits("answer"))
    assert take_all(desk) == []
    desk.control.reply("answer", b"1")
    assert take_all(desk) == [job.id]
    done(desk, job.id)
    assert take_all(desk) == [second]


def test_editing_the_key_of_a_job_that_waits_for_a_reply_moves_its_burden(desk: Desk) -> None:
    share(desk)
    job = running(desk, key="a")
    a, b = put(desk, key="a"), put(desk, key="b")
    desk.report.wait(job, Awaits("answer"))
    desk.control.edit(job.id, {"key": "b"})
    assert take_all(desk) == [a]
    desk.control.cancel(job.id)
    assert take_all(desk) == [b]


def test_a_lost_job_gives_its_keys_room_back(desk: Desk, clock: VirtualClock) -> None:
    share(desk)
    first, second = put(desk, key="k"), put(desk, key="k")
    take(desk, visibility=SECOND)
    clock.pass_(1)
    recover(desk.clerk)
    assert take_all(desk) == [first]
    done(desk, first)
    assert take_all(desk) == [second]


def test_a_new_order_keeps_the_shares_of_keys(desk: Desk, clock: VirtualClock) -> None:
    share(desk)
    ranked = put(desk, key="k", rank=0, due_at=clock.now - 1)
    timed = put(desk, key="k", rank=9, due_at=clock.now - 9)
    running_job = put(desk, key="k", rank=-9)
    assert (take_all(desk), take_all(desk)) == ([running_job], [])
    share(desk, order=Order.TIME_RANK)
    assert take_all(desk) == []
    done(desk, running_job)
    assert take_all(desk) == [timed]
    done(desk, timed)
    assert take_all(desk) == [ranked]


def test_the_same_key_in_two_queues_has_two_shares(desk: Desk) -> None:
    for queue in ("a", "b"):
        desk.control.configure(queue, QueueSettings(key_capacity=1))
    a, b = put(desk, "a", key="k"), put(desk, "b", key="k")
    put(desk, "a", key="k")
    assert take_all(desk, "a", "b") == [a, b]


# -- all of it together --------------------------------------------------------------------


@ORDERS
@pytest.mark.parametrize("seed", range(4))
def test_no_limit_is_ever_exceeded_and_nobody_is_overtaken_within_a_key(
    desk: Desk, store: Store, clock: VirtualClock, seed: int, order: Order
) -> None:
    dice = random.Random(seed)
    share(desk, 2, capacity=6, order=order)
    for _ in range(60):
        for _ in range(dice.randrange(4)):
            put(
                desk,
                key=dice.choice(["a", "b", "c", None]),
                rank=dice.randrange(3),
                weight=dice.choice([0, 500, 1000, 1000, 2000]),
                due_at=clock.now + dice.randrange(-3, 3) * SECOND,
            )
        before = store.find(EVERYTHING)
        claimed = desk.dispatch.claim(["q"], dice.randrange(1, 6))
        _nobody_overtaken(before, claimed, clock.now, order)
        _limits_kept(store)
        for job in store.find(EVERYTHING):
            if job.state is State.RUNNING and dice.random() < 0.4:
                desk.report.finish(job)
        clock.pass_(1)


def _limits_kept(store: Store) -> None:
    jobs = store.find(EVERYTHING)
    assert sum(load(job) for job in jobs) <= 6000
    for key in "abc":
        assert sum(load(job) for job in jobs if job.key == key) <= 2000


def _nobody_overtaken(before: list[Job], claimed: list[Job], now: int, order: Order) -> None:
    def place(job: Job) -> tuple[int, int, int]:
        first, second = job.rank, job.due_at
        return (first, second, job.id) if order is Order.RANK_TIME else (second, first, job.id)

    taken = {job.id for job in claimed}
    due = [job for job in before if job.state is State.QUEUED and job.due_at <= now and job.weight]
    for key in "abc":
        line = sorted((job for job in due if job.key == key), key=place)
        went = [job.id in taken for job in line]
        assert went == sorted(went, reverse=True)
