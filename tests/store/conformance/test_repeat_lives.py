"""Jobs that come round again: whole lives over several rounds, by a clock that obeys."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Failed, Finished, Outcome
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.retry_forms import fixed
from stoker.store import Filter, Store
from stoker.watch.recover import recover
from tests.engines import START, VirtualClock
from tests.store.conformance.acts import (
    BROKEN,
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    put,
    running,
    seen,
    state,
    take,
    take_all,
)

MIDNIGHT = START - START % DAY + DAY  # a Wednesday, 2023-11-15


def at_midnight(clock: VirtualClock) -> None:
    clock.now = MIDNIGHT


def run(desk: Desk, clock: VirtualClock, *, late: int = 0, takes: int = 0) -> Job:
    """Run the only job of the queue as soon as it is due, or later, and finish it."""
    due = desk.store.next_due(["q"])
    clock.now = max(clock.now, due or 0) + late
    job = take(desk)
    clock.now += takes
    return desk.report.finish(job)


@pytest.mark.parametrize(
    ("repeat", "first", "expected"),
    [
        ("SCHEDULED, +1 HOUR", 0, [1, 2, 3]),
        ("STARTED, +1 HOUR", 0, [1.25, 2.5, 3.75]),
        ("FINISHED, +1 HOUR", 0, [1.75, 3.5, 5.25]),
        ("HOURLY", 0, [1.75, 3.5, 5.25]),
        ("DAILY", 0, [24.75, 49.5, 74.25]),
        ("FINISHED, +1 DAY, START OF DAY, +4 HOURS", 0, [28, 52, 76]),
        ("FINISHED, +1 DAY, WEEKDAY 1, START OF DAY, +6 HOURS", 0, [126, 294, 462]),
        ("every 1h", 1, [2, 3, 4]),
        ("every 20m", 1 / 3, [4 / 3, 7 / 3, 10 / 3]),
        ("cron 0 5 * * *", 5, [29, 53, 77]),
        ("cron 30 * * * *", 0.5, [1.5, 2.5, 3.5]),
    ],
)
def test_a_repeat_is_kept_over_several_rounds(
    desk: Desk, clock: VirtualClock, repeat: str, first: float, expected: list[float]
) -> None:
    at_midnight(clock)
    job_id = put(desk, policy=Policy(repeat=repeat))
    assert seen(desk, job_id).due_at == MIDNIGHT + round(first * HOUR)
    rounds = []
    for _ in expected:
        # Each round starts a quarter of an hour late and takes half an hour.
        after = run(desk, clock, late=15 * MINUTE, takes=30 * MINUTE)
        assert (after.id, after.state) == (job_id, State.QUEUED)
        assert (after.scheduled_at, after.token, after.attempt) == (after.due_at, None, 0)
        rounds.append(after.due_at - MIDNIGHT)
    assert rounds == [round(hours * HOUR) for hours in expected]


def test_a_job_by_its_scheduled_times_catches_up_what_it_missed(
    desk: Desk, clock: VirtualClock
) -> None:
    at_midnight(clock)
    put(desk, policy=Policy(repeat="SCHEDULED, +1 HOUR"))
    clock.now = MIDNIGHT + 3 * HOUR + MINUTE
    runs = 0
    while take_all(desk):
        (job,) = desk.store.find(Filter(states=(State.RUNNING,)))
        desk.report.finish(job)
        runs += 1
    assert runs == 4
    assert desk.store.next_due(["q"]) == MIDNIGHT + 4 * HOUR


@pytest.mark.parametrize(
    ("missed", "runs"), [("skip", 1), ("latest", 2), ("all:2", 3), ("all:100", 6)]
)
def test_an_interval_makes_up_for_as_many_missed_ticks_as_it_was_told(
    desk: Desk, clock: VirtualClock, missed: str, runs: int
) -> None:
    at_midnight(clock)
    put(desk, policy=Policy(repeat=f"every 10m; missed={missed}"))
    clock.now = MIDNIGHT + HOUR + MINUTE  # ticks at 10, 20 ... 60 have passed
    done = 0
    while desk.dispatch.claim(["q"]):
        (job,) = desk.store.find(Filter(states=(State.RUNNING,)))
        desk.report.finish(job)
        done += 1
    assert done == runs
    assert desk.store.next_due(["q"]) == MIDNIGHT + HOUR + 10 * MINUTE


def test_what_a_run_leaves_behind_seeds_the_next(desk: Desk, clock: VirtualClock) -> None:
    put(desk, payload=b'{"value": 1}', policy=Policy(repeat="FINISHED, +1 HOUR"))
    for number in (2, 3):
        job = take(desk)
        desk.report.finish(job, b"result", payload=b'{"value": %d}' % number)
        clock.pass_(3600)
    assert take(desk).payload == b'{"value": 3}'


def test_a_run_that_leaves_nothing_behind_keeps_the_payload(
    desk: Desk, clock: VirtualClock
) -> None:
    put(desk, payload=b"same", policy=Policy(repeat="FINISHED, +1 HOUR"))
    after = desk.report.finish(take(desk), b"result")
    assert (after.payload, after.result) == (b"same", b"result")


def test_outcomes_reported_together_repeat_unless_they_say_otherwise(desk: Desk) -> None:
    desk.intake.enqueue_many([Job("q", policy=Policy(repeat="FINISHED, +1 HOUR"))] * 4)
    outcomes: list[Outcome] = [Finished(), Failed(BROKEN)]
    outcomes += [Finished(repeat=False), Failed(BROKEN, repeat=False)]
    jobs = desk.dispatch.claim(["q"], 4)
    desk.report.many(list(zip(jobs, outcomes, strict=True)))
    assert [state(desk, job.id) for job in jobs] == [
        State.QUEUED,
        State.QUEUED,
        State.FINISHED,
        State.FAILED,
    ]


def test_a_run_may_be_made_the_last(desk: Desk) -> None:
    job = running(desk, policy=Policy(repeat="FINISHED, +1 HOUR"))
    assert desk.report.finish(job, repeat=False).state is State.FINISHED


def test_a_job_may_repeat_from_a_given_moment_on(desk: Desk, clock: VirtualClock) -> None:
    at_midnight(clock)
    put(desk, due_at=MIDNIGHT + 90 * SECOND, policy=Policy(repeat="every 10m"))
    assert take_all(desk) == []
    after = run(desk, clock)
    assert after.due_at == MIDNIGHT + 90 * SECOND + 10 * MINUTE


# -- rounds that go wrong ------------------------------------------------------------------


def test_a_run_that_failed_for_good_is_lost_but_the_schedule_goes_on(
    desk: Desk, clock: VirtualClock
) -> None:
    job = running(desk, policy=Policy(repeat="FINISHED, +1 HOUR"))
    after = desk.report.fail(job, BROKEN)
    assert (after.state, after.due_at) == (State.QUEUED, clock.now + HOUR)
    assert (after.error, after.attempt, after.crashes) == ("broken", 0, 0)
    clock.pass_(3600)
    assert desk.report.finish(take(desk)).error is None


def test_a_failed_run_is_tried_again_before_the_next_round(desk: Desk, clock: VirtualClock) -> None:
    at_midnight(clock)
    policy = Policy(repeat="SCHEDULED, +1 HOUR", retry=fixed("5s", limit=1))
    job_id = put(desk, policy=policy)
    after = desk.report.fail(take(desk), BROKEN)
    assert (after.due_at, after.scheduled_at) == (MIDNIGHT + 5 * SECOND, MIDNIGHT)
    clock.pass_(5)
    desk.report.fail(take(desk), BROKEN)
    after = seen(desk, job_id)
    assert (after.due_at, after.attempt) == (MIDNIGHT + HOUR, 0)


def test_a_failed_run_may_end_the_job(desk: Desk) -> None:
    job = running(desk, policy=Policy(repeat="FINISHED, +1 HOUR"))
    assert desk.report.fail(job, BROKEN, repeat=False).state is State.FAILED


def test_a_run_out_of_time_is_lost_but_the_schedule_goes_on(
    desk: Desk, clock: VirtualClock
) -> None:
    job = running(desk, policy=Policy(repeat="FINISHED, +1 HOUR", timeout=MINUTE))
    clock.pass_(60)
    assert recover(desk.clerk) == 1
    after = seen(desk, job.id)
    assert (after.state, after.due_at) == (State.QUEUED, clock.now + HOUR)


def test_a_lost_run_that_must_not_be_repeated_leaves_the_schedule_alive(
    desk: Desk, clock: VirtualClock
) -> None:
    put(desk, policy=Policy(repeat="FINISHED, +1 HOUR", on_lost=OnLost.FAIL))
    job = take(desk, visibility=SECOND)
    clock.pass_(1)
    recover(desk.clerk)
    after = seen(desk, job.id)
    assert (after.state, after.due_at, after.crashes) == (State.QUEUED, clock.now + HOUR, 0)


def test_a_repeating_job_that_keeps_killing_its_workers_is_parked(
    desk: Desk, clock: VirtualClock
) -> None:
    job_id = put(desk, policy=Policy(repeat="FINISHED, +1 HOUR", crash_limit=2))
    for expected in (State.QUEUED, State.FAILED):
        take(desk, visibility=SECOND)
        clock.pass_(1)
        recover(desk.clerk)
        assert state(desk, job_id) is expected


@pytest.mark.parametrize("how", ["finished", "failed", "released"])
def test_cancelling_a_repeating_job_while_it_runs_ends_it(desk: Desk, how: str) -> None:
    job = running(desk, policy=Policy(repeat="FINISHED, +1 HOUR", retry=fixed(0)))
    desk.control.cancel(job.id)
    if how == "finished":
        assert desk.report.finish(job).state is State.FINISHED
    elif how == "failed":
        assert desk.report.fail(job, BROKEN).state is State.CANCELLED
    else:
        assert desk.report.release(job).state is State.CANCELLED
    assert take_all(desk) == []


# -- schedules whose runs may overlap ------------------------------------------------------

OVERLAPPING = Policy(repeat="every 10m; overlap=allow", timeout=HOUR)


def runs_of(store: Store) -> list[Job]:
    return store.find(Filter(states=(State.QUEUED, State.RUNNING, State.FINISHED)))


def test_a_schedule_with_overlapping_runs_never_runs_itself(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    schedule = put(desk, policy=OVERLAPPING)
    assert state(desk, schedule) is State.WAITING
    clock.pass_(3600)
    assert take_all(desk) == []
    assert runs_of(store) == []


def test_each_tick_makes_one_run_that_is_like_the_schedule(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    begun = clock.now
    schedule = put(
        desk,
        name="n",
        payload=b"p" * 3000,
        rank=3,
        key="k",
        weight=500,
        unique_key="u",
        meta="m",
        policy=OVERLAPPING,
    )
    clock.pass_(600)
    assert recover(desk.clerk) == 1
    (run,) = runs_of(store)
    for fact in ("queue", "name", "payload", "rank", "key", "weight", "meta"):
        assert getattr(run, fact) == getattr(seen(desk, schedule), fact), fact
    assert run.policy == Policy(timeout=HOUR)
    assert (run.due_at, run.scheduled_at) == (begun + 10 * MINUTE,) * 2
    assert (run.unique_key, run.parent_id) == (None, None)
    assert seen(desk, schedule).until == begun + 20 * MINUTE


def test_each_tick_makes_its_run_only_once(desk: Desk, store: Store, clock: VirtualClock) -> None:
    put(desk, policy=OVERLAPPING)
    clock.pass_(600)
    assert [recover(desk.clerk) for _ in range(3)] == [1, 0, 0]
    assert len(runs_of(store)) == 1


def test_runs_overlap_when_they_take_longer_than_the_interval(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    put(desk, policy=OVERLAPPING)
    running_now = []
    for _ in range(3):
        clock.pass_(600)
        recover(desk.clerk)
        running_now.append(take(desk))
    assert [state(desk, job.id) for job in running_now] == [State.RUNNING] * 3
    for job in running_now:
        assert desk.report.finish(job).state is State.FINISHED
    assert take_all(desk) == []


def test_the_time_a_watch_was_asleep_is_made_up_for_as_told(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    put(desk, policy=Policy(repeat="every 10m; overlap=allow; missed=all:3"))
    begun = clock.now
    clock.pass_(3600 + 60)
    while recover(desk.clerk):
        pass
    ticks = [(job.scheduled_at - begun) // MINUTE for job in runs_of(store)]
    assert ticks == [10, 40, 50, 60]


def test_a_failed_run_does_not_touch_its_schedule(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    schedule = put(desk, policy=OVERLAPPING)
    clock.pass_(600)
    recover(desk.clerk)
    before = seen(desk, schedule)
    assert desk.report.fail(take(desk), BROKEN).state is State.FAILED
    assert seen(desk, schedule) == before


@pytest.mark.parametrize("act", ["cancel", "delete"])
def test_a_schedule_can_be_cancelled_and_deleted(
    desk: Desk, store: Store, clock: VirtualClock, act: str
) -> None:
    schedule = put(desk, policy=OVERLAPPING)
    getattr(desk.control, act)(schedule)
    clock.pass_(3600)
    assert recover(desk.clerk) == 0
    assert runs_of(store) == []


def test_a_revived_schedule_ticks_again(desk: Desk, store: Store, clock: VirtualClock) -> None:
    schedule = put(desk, policy=OVERLAPPING)
    desk.control.cancel(schedule)
    clock.pass_(60)
    assert desk.control.revive(schedule).state is State.WAITING
    assert take_all(desk) == []
    recover(desk.clerk)
    assert [job.scheduled_at for job in runs_of(store)] == [clock.now]
    assert seen(desk, schedule).until == clock.now + 10 * MINUTE


def test_a_schedule_that_is_told_to_stop_repeating_becomes_an_ordinary_job(
    desk: Desk, clock: VirtualClock
) -> None:
    schedule = put(desk, policy=OVERLAPPING)
    due = seen(desk, schedule).due_at
    desk.control.edit(schedule, {"policy": Policy()})
    assert (state(desk, schedule), seen(desk, schedule).due_at) == (State.QUEUED, due)
    clock.pass_(600)
    assert desk.report.finish(take(desk)).state is State.FINISHED


def test_an_ordinary_job_that_is_told_to_overlap_becomes_a_schedule(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    job_id = put(desk, policy=Policy(repeat="every 10m"))
    desk.control.edit(job_id, {"policy": OVERLAPPING})
    clock.pass_(600)
    assert take_all(desk) == []
    recover(desk.clerk)
    assert [job.id for job in runs_of(store)] == take_all(desk)
    assert state(desk, job_id) is State.WAITING
