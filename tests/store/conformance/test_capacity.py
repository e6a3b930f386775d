"""Capacity of queues: never more than the limit at a time, and nobody heavy is starved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Awaits, Finished
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import QueueSettings, Retention
from stoker.kernel.retry_forms import fixed
from stoker.store import Store
from stoker.watch.recover import recover
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    BROKEN,
    SECOND,
    Facts,
    put,
    running,
    seen,
    snapshot,
    take,
    take_all,
)


def limit(desk: Desk, capacity: float | None, queue: str = "q", **more: Any) -> None:
    desk.control.configure(queue, QueueSettings(capacity=capacity, **more))


def used(store: Store, queue: str = "q") -> int:
    (view,) = store.survey([queue])
    return view.used


def test_a_queue_without_a_limit_starts_all_that_is_due(desk: Desk) -> None:
    desk.intake.enqueue_many([Job("q", weight=5000)] * 50)
    assert len(take_all(desk)) == 50


def test_never_more_run_than_the_limit_allows(desk: Desk, store: Store) -> None:
    limit(desk, 10)
    ids = [each.id for each in desk.intake.enqueue_many([Job("q")] * 30)]
    started: list[int] = []
    while len(started) < 30:
        jobs = desk.dispatch.claim(["q"], 4)
        started += [job.id for job in jobs]
        assert used(store) <= 10_000
        if not jobs:
            assert used(store) == 10_000
            for job in store.get(started[-3:]).values():
                desk.report.finish(job)
    assert started == ids


@pytest.mark.parametrize(
    ("capacity", "weight", "expected"),
    [(10, 2000, 5), (1, 500, 2), (2, 700, 2), (0.5, 500, 1), (3, 1, 20), (2, 0, 20), (1, 1000, 1)],
)
def test_what_counts_is_capacity_over_weight(
    desk: Desk, store: Store, capacity: float, weight: int, expected: int
) -> None:
    limit(desk, capacity)
    desk.intake.enqueue_many([Job("q", weight=weight)] * 20)
    assert len(take_all(desk)) == expected
    assert used(store) == weight * expected


def test_jobs_of_weight_zero_neither_count_nor_wait(desk: Desk, store: Store) -> None:
    limit(desk, 1)
    critical = put(desk, weight=0)
    normal = put(desk)
    blocked = put(desk)
    late_critical = put(desk, weight=0, rank=99)
    assert take_all(desk) == [critical, normal, late_critical]
    assert used(store) == 1000
    another = put(desk, weight=0, key="k")
    assert take_all(desk) == [another]
    desk.report.finish(seen(desk, normal))
    assert take_all(desk) == [blocked]


def test_a_job_heavier_than_the_limit_runs_alone(desk: Desk) -> None:
    limit(desk, 2)
    light, heavy, last = put(desk), put(desk, weight=5000), put(desk)
    assert take_all(desk) == [light]
    desk.report.finish(seen(desk, light))
    assert take_all(desk) == [heavy]
    desk.report.finish(seen(desk, heavy))
    assert take_all(desk) == [last]


def test_a_heavy_job_that_does_not_fit_is_not_overtaken(desk: Desk) -> None:
    limit(desk, 3)
    first, heavy, light = put(desk, weight=2000), put(desk, weight=2000), put(desk)
    assert take_all(desk) == [first]
    desk.report.finish(seen(desk, first))
    assert take_all(desk) == [heavy, light]


def test_a_job_of_better_rank_passes_a_queue_that_was_full(desk: Desk) -> None:
    limit(desk, 1)
    first, second = put(desk), put(desk)
    assert take_all(desk) == [first]
    better = put(desk, rank=-1)
    desk.report.finish(seen(desk, first))
    assert take_all(desk) == [better]
    desk.report.finish(seen(desk, better))
    assert take_all(desk) == [second]


# -- limits that change --------------------------------------------------------------------


def test_a_limit_that_is_raised_lets_more_in_at_once(desk: Desk) -> None:
    limit(desk, 1)
    ids = [each.id for each in desk.intake.enqueue_many([Job("q")] * 5)]
    assert take_all(desk) == ids[:1]
    desk.control.adjust("q", capacity=3)
    assert take_all(desk) == ids[1:3]
    desk.control.adjust("q", capacity=None)
    assert take_all(desk) == ids[3:]


def test_a_limit_that_is_lowered_waits_for_those_that_run(desk: Desk) -> None:
    limit(desk, 3)
    ids = [each.id for each in desk.intake.enqueue_many([Job("q")] * 5)]
    assert take_all(desk) == ids[:3]
    limit(desk, 1)
    for job_id in ids[:2]:
        assert take_all(desk) == []
        desk.report.finish(seen(desk, job_id))
    assert take_all(desk) == []
    desk.report.finish(seen(desk, ids[2]))
    assert take_all(desk) == ids[3:4]


def test_a_limit_counts_what_ran_before_it_was_set(desk: Desk) -> None:
    ids = [each.id for each in desk.intake.enqueue_many([Job("q")] * 3)]
    desk.dispatch.claim(["q"], 2)
    limit(desk, 2)
    assert take_all(desk) == []
    desk.report.finish(seen(desk, ids[0]))
    assert take_all(desk) == ids[2:]


# -- room comes back -----------------------------------------------------------------------


def _lost(desk: Desk, job: Job, clock: VirtualClock) -> None:
    clock.pass_(10)
    recover(desk.clerk)


def _cancelled(desk: Desk, job: Job, clock: VirtualClock) -> None:
    desk.control.cancel(job.id)
    desk.report.release(job)


ENDINGS: dict[str, Callable[[Desk, Job, VirtualClock], object]] = {
    "finished": lambda desk, job, clock: desk.report.finish(job),
    "failed": lambda desk, job, clock: desk.report.fail(job, BROKEN),
    "released": lambda desk, job, clock: desk.report.release(job, due_at=clock.now + SECOND),
    "lost": _lost,
    "cancelled": _cancelled,
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("facts", [{}, {"key": "k"}], ids=["plain", "keyed"])
@pytest.mark.parametrize("kept", [None, 0], ids=["kept", "not kept"])
def test_room_comes_back_however_a_job_ends(
    desk: Desk,
    store: Store,
    clock: VirtualClock,
    ending: Callable[[Desk, Job, VirtualClock], object],
    facts: Facts,
    kept: int | None,
) -> None:
    limit(desk, 1, key_capacity=1, retention=Retention(kept, kept, kept))
    put(desk, policy=Policy(on_lost=OnLost.FAIL, retry=fixed("1s", limit=1)), **facts)
    next_one = put(desk, rank=1, **facts)
    job = take(desk, visibility=SECOND)
    assert (used(store), take_all(desk)) == (1000, [])
    ending(desk, job, clock)
    assert used(store) == 0
    assert take_all(desk) == [next_one]


def test_a_job_that_waits_for_a_reply_still_takes_room(desk: Desk, store: Store) -> None:
    limit(desk, 1)
    job = running(desk)
    second = put(desk)
    desk.report.wait(job, Awaits("k"))
    assert (used(store), take_all(desk)) == (1000, [])
    desk.control.reply("k", b"answer")
    assert take_all(desk) == [job.id]
    desk.report.finish(seen(desk, job.id))
    assert take_all(desk) == [second]


def test_a_parent_that_waits_for_its_children_takes_no_room(desk: Desk, store: Store) -> None:
    limit(desk, 1)
    parent = running(desk)
    (child,) = desk.intake.spawn(parent, [Job("q")])
    assert used(store) == 1000
    desk.report.finish(parent)
    assert used(store) == 0
    assert take_all(desk) == [child]


def test_cancelling_a_waiting_job_gives_its_room_back(desk: Desk, store: Store) -> None:
    limit(desk, 1)
    job = running(desk)
    second = put(desk)
    desk.report.wait(job, Awaits("k"))
    desk.control.cancel(job.id)
    assert used(store) == 0
    assert take_all(desk) == [second]


def test_a_job_that_waits_may_become_heavier_or_lighter(desk: Desk, store: Store) -> None:
    limit(desk, 2)
    job = running(desk)
    desk.report.wait(job, Awaits("k"))
    desk.control.edit(job.id, {"weight": 1500})
    assert used(store) == 1500
    second = put(desk)
    assert take_all(desk) == []
    desk.control.edit(job.id, {"weight": 250})
    assert used(store) == 250
    assert take_all(desk) == [second]


def test_the_room_of_a_report_can_be_claimed_in_the_same_step(desk: Desk) -> None:
    limit(desk, 1)
    first, second = put(desk), put(desk)
    job = take(desk)
    results, grants = desk.report.many([(job, Finished())], [desk.dispatch.request(["q"], 5)])
    assert (results, seen(desk, first).state) == ([None], State.FINISHED)
    assert grants[0] is not None
    assert [granted.id for granted in grants[0]] == [second]
    assert first == job.id


# -- several queues ------------------------------------------------------------------------


def test_each_queue_of_a_claim_keeps_its_own_limit(desk: Desk) -> None:
    limit(desk, 1, "a")
    limit(desk, 2, "b")
    for rank in range(4):
        for queue in "abc":
            put(desk, queue, rank=rank)
    jobs = desk.dispatch.claim(["a", "b", "c"], 100)
    assert [(job.rank, job.queue) for job in jobs] == [
        (0, "a"),
        (0, "b"),
        (0, "c"),
        (1, "b"),
        (1, "c"),
        (2, "c"),
        (3, "c"),
    ]


def test_looking_at_a_queue_without_taking_from_it_uses_no_room(desk: Desk, store: Store) -> None:
    limit(desk, 1, "a")
    first = put(desk, "b", rank=-1)
    second = put(desk, "a")
    assert [job.id for job in desk.dispatch.claim(["a", "b"], 1)] == [first]
    assert used(store, "a") == 0
    assert take_all(desk, "a", "b") == [second]


def test_a_full_queue_is_left_as_it_is(desk: Desk, store: Store) -> None:
    limit(desk, 1)
    running(desk)
    for facts in ({}, {"key": "k"}, {"rank": -3}):
        put(desk, **facts)
    before = snapshot(store)
    assert take_all(desk) == []
    assert snapshot(store) == before
