"""Recovery: what becomes of jobs whose worker was never heard of again."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Crashed
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import QueueSettings, Retention
from stoker.kernel.retry_forms import by_error, fixed
from stoker.store import Lost, Store
from stoker.watch import CHORES, run_chores
from stoker.watch.recover import recover
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    BROKEN,
    DAY,
    HOUR,
    SECOND,
    exists,
    put,
    running,
    seen,
    state,
    take,
    take_all,
)


def lose(desk: Desk, clock: VirtualClock) -> Job:
    """Claim the foremost job and never come back."""
    job = take(desk, visibility=SECOND)
    clock.pass_(1)
    assert recover(desk.clerk) == 1
    return job


def test_a_lost_job_is_queued_again_in_its_old_place_and_tells_why(
    desk: Desk, clock: VirtualClock
) -> None:
    job_id, other = put(desk), put(desk)
    lost = lose(desk, clock)
    after = seen(desk, job_id)
    assert (after.state, after.attempt, after.crashes) == (State.QUEUED, 1, 1)
    assert (after.token, after.session, after.until) == (None, None, None)
    assert after.due_at == lost.due_at
    assert after.error == "worker lost in try 1: its deadline passed"
    assert take_all(desk) == [job_id, other]


def test_the_evidence_names_the_session_that_is_gone(desk: Desk, clock: VirtualClock) -> None:
    session = desk.dispatch.open_session(ttl=SECOND)
    job_id = put(desk)
    take(desk, session=session)
    clock.pass_(1)
    recover(desk.clerk)
    assert seen(desk, job_id).error == f"worker lost in try 1: session {session} is gone"


def test_the_evidence_does_not_blame_a_session_that_lives(desk: Desk, clock: VirtualClock) -> None:
    session = desk.dispatch.open_session(ttl=HOUR)
    job_id = put(desk)
    take(desk, session=session, visibility=SECOND)
    clock.pass_(1)
    recover(desk.clerk)
    assert seen(desk, job_id).error == "worker lost in try 1: its deadline passed"


def test_a_second_delivery_can_be_told_from_the_first(desk: Desk, clock: VirtualClock) -> None:
    put(desk)
    first = lose(desk, clock)
    second = take(desk)
    assert (first.attempt, second.attempt, second.crashes) == (1, 2, 1)
    assert first.token != second.token


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_a_job_is_parked_after_exactly_as_many_lost_workers_as_it_allows(
    desk: Desk, clock: VirtualClock, limit: int
) -> None:
    job_id = put(desk, policy=Policy(crash_limit=limit))
    for number in range(1, limit + 1):
        assert state(desk, job_id) is State.QUEUED
        lose(desk, clock)
        assert seen(desk, job_id).crashes == number
    parked = seen(desk, job_id)
    assert parked.state is State.FAILED
    assert parked.error == (
        f"parked after losing {limit} workers; worker lost in try {limit}: its deadline passed"
    )
    assert parked.ended_at == clock.now
    assert take_all(desk) == []


def test_a_job_without_crash_limit_comes_back_every_time(desk: Desk, clock: VirtualClock) -> None:
    job_id = put(desk, policy=Policy(crash_limit=None))
    for _ in range(10):
        lose(desk, clock)
    assert (state(desk, job_id), seen(desk, job_id).crashes) == (State.QUEUED, 10)


def test_three_lost_workers_are_allowed_unless_told_otherwise(
    desk: Desk, clock: VirtualClock
) -> None:
    job_id = put(desk)
    for expected in (State.QUEUED, State.QUEUED, State.FAILED):
        lose(desk, clock)
        assert state(desk, job_id) is expected


def test_at_most_once_fails_a_lost_job_at_once(desk: Desk, clock: VirtualClock) -> None:
    job_id = put(desk, policy=Policy(on_lost=OnLost.FAIL))
    lose(desk, clock)
    after = seen(desk, job_id)
    assert (after.state, after.crashes) == (State.FAILED, 1)
    assert after.error == "worker lost in try 1: its deadline passed"


def test_a_loss_may_count_as_a_failure_for_the_retry_policy(
    desk: Desk, clock: VirtualClock
) -> None:
    policy = Policy(on_lost=OnLost.RETRY, retry=fixed("10s", limit=1), crash_limit=None)
    job_id = put(desk, policy=policy)
    lose(desk, clock)
    after = seen(desk, job_id)
    assert (after.state, after.due_at, after.crashes) == (State.QUEUED, clock.now + 10 * SECOND, 1)
    clock.pass_(10)
    lose(desk, clock)
    assert state(desk, job_id) is State.FAILED


def test_a_retry_policy_can_tell_a_lost_worker_from_other_errors(
    desk: Desk, clock: VirtualClock
) -> None:
    retry = by_error({"stoker.WorkerLost": fixed("5s")}, otherwise=fixed("1h"))
    job_id = put(desk, policy=Policy(on_lost=OnLost.RETRY, retry=retry))
    lose(desk, clock)
    assert seen(desk, job_id).due_at == clock.now + 5 * SECOND


def test_losses_that_only_requeue_do_not_use_up_retries(desk: Desk, clock: VirtualClock) -> None:
    policy = Policy(retry=fixed(0, limit=1), crash_limit=None)
    job_id = put(desk, policy=policy)
    for _ in range(4):
        lose(desk, clock)
    desk.report.fail(take(desk), BROKEN)
    assert state(desk, job_id) is State.QUEUED
    desk.report.fail(take(desk), BROKEN)
    assert state(desk, job_id) is State.FAILED


@pytest.mark.parametrize("on_lost", [OnLost.REQUEUE, OnLost.RETRY, OnLost.FAIL])
def test_a_lost_job_that_was_to_be_cancelled_is_cancelled(
    desk: Desk, clock: VirtualClock, on_lost: OnLost
) -> None:
    job_id = put(desk, policy=Policy(on_lost=on_lost, retry=fixed(0)))
    take(desk, visibility=SECOND)
    desk.control.cancel(job_id)
    clock.pass_(1)
    recover(desk.clerk)
    assert state(desk, job_id) is State.CANCELLED


@pytest.mark.parametrize(
    ("on_lost", "expected"),
    [
        (OnLost.REQUEUE, State.QUEUED),
        (OnLost.RETRY, State.QUEUED),
        (OnLost.FAIL, State.FAILED),
        (OnLost.STAY, State.FAILED),
    ],
)
def test_a_crash_that_was_seen_is_treated_as_a_loss_at_once(
    desk: Desk, clock: VirtualClock, on_lost: OnLost, expected: State
) -> None:
    job = running(desk, policy=Policy(on_lost=on_lost, retry=fixed("10s"), timeout=None))
    (after,), _ = desk.report.many([(job, Crashed("exit code 139"))])
    assert isinstance(after, Job)
    assert (after.state, after.crashes, after.error) == (expected, 1, "exit code 139")
    assert after.due_at == (clock.now + 10 * SECOND if on_lost is OnLost.RETRY else job.due_at)
    assert seen(desk, job.id) == after


def test_crashes_that_were_seen_and_losses_are_counted_together(
    desk: Desk, clock: VirtualClock
) -> None:
    job_id = put(desk, policy=Policy(crash_limit=2))
    lose(desk, clock)
    desk.report.many([(take(desk), Crashed("exit code 139"))])
    after = seen(desk, job_id)
    assert after.state is State.FAILED
    assert after.error == "parked after losing 2 workers; exit code 139"


def test_a_lost_job_that_nobody_keeps_is_gone(desk: Desk, clock: VirtualClock) -> None:
    desk.control.configure("q", QueueSettings(retention=Retention(failed=0)))
    job_id = put(desk, policy=Policy(on_lost=OnLost.FAIL))
    lose(desk, clock)
    assert not exists(desk, job_id)


def test_recovery_leaves_running_queued_and_ended_jobs_alone(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    done = running(desk)
    desk.report.finish(done)
    put(desk)
    take(desk, visibility=HOUR)
    put(desk, due_at=clock.now - DAY, rank=9)
    before = store.find(Lost())
    clock.pass_(60)
    assert (before, recover(desk.clerk)) == ([], 0)


def test_all_lost_jobs_come_back_not_only_the_first(desk: Desk, clock: VirtualClock) -> None:
    ids = [each.id for each in desk.intake.enqueue_many([Job("q")] * 6)]
    take(desk, visibility=HOUR)  # a long one in front
    desk.dispatch.claim(["q"], 5, visibility=SECOND)
    clock.pass_(1)
    assert recover(desk.clerk) == 5
    assert take_all(desk) == ids[1:]


def test_more_lost_jobs_than_one_turn_takes_are_recovered_in_several(
    desk: Desk, clock: VirtualClock
) -> None:
    desk.intake.enqueue_many([Job("q")] * 1001)
    desk.dispatch.claim(["q"], 1000, visibility=SECOND)
    desk.dispatch.claim(["q"], 1, visibility=SECOND)
    clock.pass_(1)
    moved = run_chores(desk.clerk, "me")
    assert moved == {**dict.fromkeys(CHORES, 0), "recover": 1001}
    assert len(take_all(desk)) == 1000


def test_only_one_runs_the_chores_at_a_time(desk: Desk, store: Store, clock: VirtualClock) -> None:
    assert store.hold("chores", "somebody else", HOUR)
    put(desk)
    take(desk, visibility=SECOND)
    clock.pass_(1)
    assert run_chores(desk.clerk, "me") is None
    store.hold("chores", "somebody else", 0)
    moved = run_chores(desk.clerk, "me")
    assert moved is not None
    assert moved["recover"] == 1
    assert store.hold("chores", "a third", SECOND)
