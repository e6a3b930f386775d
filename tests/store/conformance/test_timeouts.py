"""Time limits: a try that takes too long has failed, however lively its worker."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.errors import LeaseLost
from stoker.kernel.job import State
from stoker.kernel.outcome import Awaits
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.retry_forms import by_error, custom, fixed, never
from stoker.store import Lost, Store
from stoker.watch.recover import recover
from tests.engines import VirtualClock
from tests.store.conformance.acts import DAY, HOUR, MINUTE, SECOND, put, running, seen, take


def test_a_try_may_take_a_day_unless_told_otherwise(desk: Desk, clock: VirtualClock) -> None:
    job = running(desk)
    assert job.policy.timeout == DAY
    assert job.until == clock.now + DAY
    clock.now += DAY - 1
    assert recover(desk.clerk) == 0
    clock.now += 1
    assert recover(desk.clerk) == 1
    after = seen(desk, job.id)
    assert (after.state, after.error) == (State.FAILED, "ran longer than its limit of 86400 s")


def test_the_limit_of_a_job_goes_before_the_usual_one(desk: Desk, clock: VirtualClock) -> None:
    job = running(desk, policy=Policy(timeout=1_500_000))
    assert job.until == clock.now + 1_500_000
    clock.pass_(1.5)
    recover(desk.clerk)
    assert seen(desk, job.id).error == "ran longer than its limit of 1.5 s"


def test_a_heartbeat_does_not_save_a_try_that_is_out_of_time(
    desk: Desk, clock: VirtualClock
) -> None:
    session = desk.dispatch.open_session(ttl=HOUR)
    put(desk, policy=Policy(timeout=MINUTE))
    job = take(desk, session=session, visibility=30 * SECOND)
    for _ in range(4):
        clock.pass_(15)
        desk.dispatch.beat(session, ttl=HOUR)
        desk.report.touch(job, visibility=30 * SECOND)
    assert recover(desk.clerk) == 1
    assert seen(desk, job.id).state is State.FAILED
    with pytest.raises(LeaseLost):
        desk.report.finish(job)


@pytest.mark.parametrize("on_lost", OnLost)
def test_a_try_out_of_time_goes_through_the_retry_policy_whatever_a_loss_would_mean(
    desk: Desk, clock: VirtualClock, on_lost: OnLost
) -> None:
    policy = Policy(timeout=MINUTE, retry=fixed("10s", limit=1), on_lost=on_lost)
    job_id = put(desk, policy=policy)
    for expected in (State.QUEUED, State.FAILED):
        take(desk)
        clock.pass_(60)
        assert recover(desk.clerk) == 1
        after = seen(desk, job_id)
        assert (after.state, after.crashes) == (expected, 0)
        if expected is State.QUEUED:
            assert after.due_at == clock.now + 10 * SECOND
        clock.pass_(10)


def test_a_retry_policy_can_tell_a_timeout_from_other_errors(
    desk: Desk, clock: VirtualClock
) -> None:
    retry = by_error({"stoker.Timeout": fixed("3s")}, otherwise=never())
    job = running(desk, policy=Policy(timeout=SECOND, retry=retry))
    clock.pass_(1)
    recover(desk.clerk)
    assert seen(desk, job.id).due_at == clock.now + 3 * SECOND


def test_a_timeout_of_a_job_with_a_handler_waits_for_the_handler(
    desk: Desk, clock: VirtualClock
) -> None:
    job = running(desk, policy=Policy(timeout=SECOND, retry=custom("ask.me")))
    clock.pass_(1)
    recover(desk.clerk)
    after = seen(desk, job.id)
    assert (after.state, after.undecided) == (State.QUEUED, True)
    assert after.error == "ran longer than its limit of 1 s"


def test_each_try_has_the_whole_time_limit(desk: Desk, clock: VirtualClock) -> None:
    put(desk, policy=Policy(timeout=MINUTE, retry=fixed("1h")))
    take(desk)
    clock.pass_(60)
    recover(desk.clerk)
    clock.pass_(3600)
    assert take(desk).until == clock.now + MINUTE


def test_a_job_without_a_limit_runs_as_long_as_its_lease_holds(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    job = running(desk, policy=Policy(timeout=None))
    clock.pass_(1e9)
    assert store.find(Lost()) == []
    assert desk.report.finish(job).state is State.FINISHED


# -- waiting for a reply -------------------------------------------------------------------


def test_a_reply_that_does_not_come_in_time_fails_the_job(desk: Desk, clock: VirtualClock) -> None:
    job = running(desk)
    desk.report.wait(job, Awaits("order 7", timeout=2 * SECOND))
    clock.now += 2 * SECOND - 1
    assert recover(desk.clerk) == 0
    clock.now += 1
    assert recover(desk.clerk) == 1
    after = seen(desk, job.id)
    assert (after.state, after.waits_for) == (State.FAILED, None)
    assert after.error == "no reply for 'order 7' came in time"


def test_a_missing_reply_goes_through_the_retry_policy(desk: Desk, clock: VirtualClock) -> None:
    retry = by_error({"stoker.Timeout": fixed("5s", limit=1)}, otherwise=never())
    job_id = put(desk, policy=Policy(retry=retry))
    for expected in (State.QUEUED, State.FAILED):
        job = take(desk)
        desk.report.wait(job, Awaits("k", timeout=SECOND))
        clock.pass_(1)
        recover(desk.clerk)
        assert seen(desk, job_id).state is expected
        clock.pass_(5)
    assert seen(desk, job_id).attempt == 2


def test_the_time_limit_of_the_try_covers_the_wait_too(desk: Desk, clock: VirtualClock) -> None:
    job = running(desk, policy=Policy(timeout=MINUTE))
    assert job.started_at is not None
    clock.pass_(20)
    after = desk.report.wait(job, Awaits("k"))
    assert after.until == job.started_at + MINUTE
    clock.pass_(40)
    recover(desk.clerk)
    assert seen(desk, job.id).state is State.FAILED


def test_a_wait_has_its_limit_even_for_jobs_whose_lease_never_ends(
    desk: Desk, clock: VirtualClock
) -> None:
    job = running(desk, policy=Policy(on_lost=OnLost.STAY, timeout=None))
    after = desk.report.wait(job, Awaits("k", timeout=SECOND))
    assert after.until == clock.now + SECOND


def test_a_wait_without_any_limit_never_ends_by_itself(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    job = running(desk, policy=Policy(timeout=None))
    assert desk.report.wait(job, Awaits("k")).until is None
    clock.pass_(1e9)
    assert store.find(Lost()) == []
