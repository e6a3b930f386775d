"""Cancelling: at once before a job runs, on request while it does."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.errors import IllegalMove, NotFound
from stoker.kernel.job import State
from stoker.kernel.policy import Policy
from stoker.kernel.retry_forms import fixed
from stoker.store import Store
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    BROKEN,
    DAY,
    SECOND,
    Facts,
    put,
    running,
    seen,
    snapshot,
    take,
    take_all,
)

KINDS = pytest.mark.parametrize(
    "facts", [{}, {"key": "k"}, {"weight": 0}], ids=["plain", "keyed", "free"]
)


@KINDS
def test_a_queued_job_is_cancelled_at_once(desk: Desk, clock: VirtualClock, facts: Facts) -> None:
    job_id = put(desk, **facts)
    after = desk.control.cancel(job_id)
    assert (after.state, after.ended_at) == (State.CANCELLED, clock.now)
    assert after.until == clock.now + DAY
    assert seen(desk, job_id) == after
    assert take_all(desk) == []


def test_a_job_that_is_not_due_can_be_cancelled(desk: Desk, clock: VirtualClock) -> None:
    job_id = put(desk, due_at=clock.now + SECOND)
    desk.control.cancel(job_id)
    clock.pass_(1)
    assert take_all(desk) == []


def test_a_job_between_two_tries_can_be_cancelled(desk: Desk, clock: VirtualClock) -> None:
    job = running(desk, policy=Policy(retry=fixed("1s")))
    desk.report.fail(job, BROKEN)
    assert desk.control.cancel(job.id).state is State.CANCELLED
    clock.pass_(1)
    assert take_all(desk) == []


@KINDS
def test_a_running_job_is_asked_to_stop_and_keeps_its_lease(desk: Desk, facts: Facts) -> None:
    job = running(desk, **facts)
    after = desk.control.cancel(job.id)
    assert (after.state, after.cancel_requested) == (State.RUNNING, True)
    assert (after.token, after.until) == (job.token, job.until)


@pytest.mark.parametrize("policy", [Policy(), Policy(retry=fixed(0))], ids=["never", "retry"])
def test_a_job_asked_to_stop_that_fails_is_cancelled_whatever_its_policy(
    desk: Desk, policy: Policy
) -> None:
    job = running(desk, policy=policy)
    desk.control.cancel(job.id)
    after = desk.report.fail(job, BROKEN)
    assert (after.state, after.error) == (State.CANCELLED, "broken")
    assert take_all(desk) == []


def test_asking_twice_is_asking_once(desk: Desk) -> None:
    job = running(desk)
    desk.control.cancel(job.id)
    assert desk.control.cancel(job.id).cancel_requested
    assert desk.report.release(job).state is State.CANCELLED


@pytest.mark.parametrize("end", ["finished", "failed", "cancelled"])
def test_what_has_ended_cannot_be_cancelled(desk: Desk, store: Store, end: str) -> None:
    if end == "cancelled":
        job = desk.control.cancel(put(desk))
    elif end == "finished":
        job = desk.report.finish(running(desk))
    else:
        job = desk.report.fail(running(desk), BROKEN)
    before = snapshot(store)
    with pytest.raises(IllegalMove, match=f"cannot cancel job {job.id}"):
        desk.control.cancel(job.id)
    assert snapshot(store) == before


def test_a_job_that_does_not_exist_cannot_be_cancelled(desk: Desk) -> None:
    with pytest.raises(NotFound, match="there is no job 404"):
        desk.control.cancel(404)


def test_a_revived_job_is_no_longer_to_be_cancelled(desk: Desk) -> None:
    job = running(desk)
    desk.control.cancel(job.id)
    desk.report.finish(job)
    desk.control.revive(job.id)
    again = take(desk)
    assert (again.id, again.cancel_requested) == (job.id, False)


def test_many_equal_jobs_can_be_cancelled_one_by_one(desk: Desk, store: Store) -> None:
    ids = [put(desk, payload=b"same") for _ in range(3)]
    for job_id in ids:
        desk.control.cancel(job_id)
    (view,) = store.survey(["q"])
    assert (view.counts[State.QUEUED], view.counts[State.CANCELLED]) == (0, 3)
