"""Leases: who holds a job may write, and nobody else; a late worker changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stoker.desk import Desk
from stoker.errors import BadInput, IllegalMove, LeaseLost
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Awaits, Failed, Finished, Released
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import Retention
from stoker.store import Lost, Store
from stoker.watch.recover import recover
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    BROKEN,
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Facts,
    put,
    running,
    seen,
    snapshot,
    state,
    take,
    take_all,
)

_NOTHING_KEPT = Retention(finished=0, failed=0, cancelled=0)

ACTS: dict[str, Callable[[Desk, Job], object]] = {
    "finish": lambda desk, job: desk.report.finish(job, b"late"),
    "fail": lambda desk, job: desk.report.fail(job, BROKEN),
    "release": lambda desk, job: desk.report.release(job, payload=b"late"),
    "touch": lambda desk, job: desk.report.touch(job, visibility=HOUR, progress=0.9),
    "wait": lambda desk, job: desk.report.wait(job, Awaits("late")),
    "spawn": lambda desk, job: desk.intake.spawn(job, [Job("late")]),
}


def _queued_again(desk: Desk, job: Job, clock: VirtualClock) -> None:
    clock.pass_(10)
    assert recover(desk.clerk) == 1


def _taken_by_another(desk: Desk, job: Job, clock: VirtualClock) -> None:
    _queued_again(desk, job, clock)
    assert take(desk).id == job.id


def _finished_by_another(desk: Desk, job: Job, clock: VirtualClock) -> None:
    _queued_again(desk, job, clock)
    desk.report.finish(take(desk), b"in time")


def _deleted(desk: Desk, job: Job, clock: VirtualClock) -> None:
    _queued_again(desk, job, clock)
    desk.control.delete(job.id)


LOSSES: dict[str, Callable[[Desk, Job, VirtualClock], object]] = {
    "queued again": _queued_again,
    "taken by another": _taken_by_another,
    "finished by another": _finished_by_another,
    "deleted": _deleted,
    "finished": lambda desk, job, clock: desk.report.finish(job, b"in time"),
    "failed": lambda desk, job, clock: desk.report.fail(job, BROKEN),
    "released": lambda desk, job, clock: desk.report.release(job),
    "waiting for a reply": lambda desk, job, clock: desk.report.wait(job, Awaits("k")),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("facts", [{}, {"key": "k"}], ids=["plain", "keyed"])
def test_a_worker_that_lost_its_job_can_do_nothing_to_it(
    desk: Desk,
    store: Store,
    clock: VirtualClock,
    loss: Callable[[Desk, Job, VirtualClock], object],
    act: Callable[[Desk, Job], object],
    facts: Facts,
) -> None:
    put(desk, **facts)
    job = take(desk, visibility=SECOND)
    loss(desk, job, clock)
    before = snapshot(store)
    with pytest.raises(LeaseLost, match="no longer yours"):
        act(desk, job)
    assert snapshot(store) == before


@pytest.mark.parametrize("order", ["late first", "late last"])
@pytest.mark.parametrize(
    "outcome",
    [Finished(b"late"), Failed(BROKEN), Released()],
    ids=["finished", "failed", "released"],
)
def test_of_two_workers_that_report_in_one_step_the_late_one_is_refused(
    desk: Desk, clock: VirtualClock, order: str, outcome: Finished | Failed | Released
) -> None:
    put(desk)
    late = take(desk, visibility=SECOND)
    clock.pass_(10)
    recover(desk.clerk)
    right = take(desk)
    reports: list[tuple[Job, Finished | Failed | Released]]
    reports = [(late, outcome), (right, Finished(b"right"))]
    if order == "late last":
        reports.reverse()
    results, _ = desk.report.many(reports)
    by_token = {job.token: result for (job, _), result in zip(reports, results, strict=True)}
    assert isinstance(by_token[late.token], LeaseLost)
    assert not isinstance(by_token[right.token], LeaseLost)
    assert (seen(desk, right.id).state, seen(desk, right.id).result) == (State.FINISHED, b"right")


@pytest.mark.parametrize("order", ["late first", "late last"])
def test_the_same_holds_when_finished_jobs_are_not_kept(
    desk: Desk, clock: VirtualClock, order: str
) -> None:
    desk.control.adjust("q", retention=_NOTHING_KEPT)
    put(desk)
    late = take(desk, visibility=SECOND)
    clock.pass_(10)
    recover(desk.clerk)
    right = take(desk)
    reports = [(late, Finished()), (right, Finished())]
    if order == "late last":
        reports.reverse()
    results, _ = desk.report.many(reports)
    refused = {
        job.token
        for (job, _), result in zip(reports, results, strict=True)
        if isinstance(result, LeaseLost)
    }
    assert refused == {late.token}
    assert desk.store.get([right.id]) == {}


def test_a_second_finish_of_the_same_copy_is_refused_within_one_step(desk: Desk) -> None:
    job = running(desk)
    results, _ = desk.report.many([(job, Finished(b"first")), (job, Finished(b"second"))])
    assert isinstance(results[0], Job)
    assert isinstance(results[1], LeaseLost)
    assert seen(desk, job.id).result == b"first"


def test_a_job_that_is_reported_twice_as_done_is_refused_once(desk: Desk) -> None:
    job = running(desk)
    results, _ = desk.report.many([(job, Finished()), (job, Finished())])
    assert isinstance(results[0], Job)
    assert isinstance(results[1], LeaseLost)
    assert seen(desk, job.id).revision == job.revision + 1


@pytest.mark.parametrize("retention", [Retention(), _NOTHING_KEPT])
def test_one_late_report_among_many_is_the_only_one_refused(
    desk: Desk, clock: VirtualClock, retention: Retention
) -> None:
    desk.control.adjust("q", retention=retention)
    jobs = [running(desk) for _ in range(5)]
    desk.report.release(jobs[2])
    (lease,) = desk.dispatch.claim(["q"])
    results, _ = desk.report.many([(job, Finished()) for job in jobs])
    assert [isinstance(result, LeaseLost) for result in results] == [n == 2 for n in range(5)]
    assert seen(desk, jobs[2].id) == lease
    left = [desk.store.get([job.id]).get(job.id) for job in jobs if job is not jobs[2]]
    expected = None if retention is _NOTHING_KEPT else State.FINISHED
    assert {job and job.state for job in left} == {expected}
    (view,) = desk.store.survey(["q"])
    assert (view.counts[State.RUNNING], view.used) == (1, 1000)


# -- news that do not end the lease --------------------------------------------------------


def test_a_worker_may_finish_what_others_have_changed_meanwhile(
    desk: Desk, clock: VirtualClock
) -> None:
    job = running(desk)
    desk.control.edit(job.id, {"payload": b"new", "meta": "m"})
    desk.report.touch(job, progress=0.5)
    desk.report.finish(job, b"done")
    after = seen(desk, job.id)
    assert (after.state, after.result) == (State.FINISHED, b"done")
    assert (after.payload, after.meta, after.progress) == (b"new", "m", 0.5)
    assert after.ended_at == clock.now


def test_a_worker_asked_to_cancel_may_still_finish(desk: Desk) -> None:
    job = running(desk)
    desk.control.cancel(job.id)
    assert desk.report.finish(job, b"done").state is State.FINISHED
    assert seen(desk, job.id).result == b"done"


def test_finishing_after_spawning_is_decided_on_what_is_true_now(desk: Desk) -> None:
    job = running(desk)
    desk.intake.spawn(job, [Job("child")])
    after = desk.report.finish(job)  # the copy in hand knows nothing of the child
    assert (after.state, after.open_children) == (State.WAITING, 1)


def test_a_late_worker_whose_job_nobody_took_may_still_finish(
    desk: Desk, clock: VirtualClock
) -> None:
    put(desk)
    job = take(desk, visibility=SECOND)
    clock.pass_(60)
    assert desk.report.finish(job, b"late, but there").state is State.FINISHED
    assert recover(desk.clerk) == 0


# -- when leases end -----------------------------------------------------------------------


def lost_ids(store: Store) -> list[int]:
    return [job.id for job in store.find(Lost())]


def test_a_deadline_ends_a_lease_at_its_moment(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    put(desk)
    job = take(desk, visibility=5 * SECOND)
    assert job.until == clock.now + 5 * SECOND
    clock.now += 5 * SECOND - 1
    assert (lost_ids(store), recover(desk.clerk)) == ([], 0)
    assert take_all(desk) == []
    clock.now += 1
    assert lost_ids(store) == [job.id]
    assert recover(desk.clerk) == 1
    assert take_all(desk) == [job.id]


def test_the_end_of_its_session_ends_a_lease_at_its_moment(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    session = desk.dispatch.open_session(ttl=5 * SECOND)
    put(desk)
    job = take(desk, session=session)
    assert (job.session, job.until) == (session, clock.now + DAY)
    clock.now += 5 * SECOND - 1
    assert lost_ids(store) == []
    clock.now += 1
    assert lost_ids(store) == [job.id]


@pytest.mark.parametrize("first", ["deadline", "session"])
def test_a_lease_bound_to_both_ends_with_whichever_comes_first(
    desk: Desk, store: Store, clock: VirtualClock, first: str
) -> None:
    ttl, visibility = (SECOND, MINUTE) if first == "session" else (MINUTE, SECOND)
    session = desk.dispatch.open_session(ttl=ttl)
    put(desk)
    job = take(desk, session=session, visibility=visibility)
    clock.now += SECOND - 1
    assert lost_ids(store) == []
    clock.now += 1
    assert lost_ids(store) == [job.id]


def test_a_lease_bound_to_neither_ends_with_the_time_limit_of_the_try(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    put(desk, policy=Policy(timeout=MINUTE))
    job = take(desk)
    assert (job.session, job.until) == (None, clock.now + MINUTE)
    clock.pass_(60)
    assert lost_ids(store) == [job.id]


def test_a_lease_bound_to_nothing_at_all_never_ends(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    put(desk, policy=Policy(timeout=None))
    job = take(desk)
    assert job.until is None
    clock.now += 1000 * 365 * DAY
    assert lost_ids(store) == []
    assert desk.report.finish(job).state is State.FINISHED


def test_a_job_that_stays_outlives_both_its_session_and_its_deadline(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    session = desk.dispatch.open_session(ttl=SECOND)
    put(desk, policy=Policy(on_lost=OnLost.STAY, timeout=None))
    job = take(desk, session=session, visibility=SECOND)
    assert (job.session, job.until) == (None, None)
    clock.now += 365 * DAY
    assert lost_ids(store) == []
    assert recover(desk.clerk) == 0
    assert state(desk, job.id) is State.RUNNING
    assert desk.report.finish(job).state is State.FINISHED


# -- signs of life -------------------------------------------------------------------------


def test_renewing_moves_the_deadline_from_now_on(desk: Desk, clock: VirtualClock) -> None:
    put(desk)
    job = take(desk, visibility=9 * SECOND)  # offered: accept it by then
    clock.pass_(5)
    renewed = desk.report.touch(job, visibility=20 * SECOND)  # accepted
    assert renewed.until == seen(desk, job.id).until == clock.now + 20 * SECOND
    clock.pass_(19)
    assert recover(desk.clerk) == 0
    clock.pass_(1)
    assert recover(desk.clerk) == 1


def test_renewing_cannot_outlast_the_time_limit_of_the_try(desk: Desk, clock: VirtualClock) -> None:
    put(desk, policy=Policy(timeout=MINUTE))
    job = take(desk, visibility=SECOND)
    assert job.started_at is not None
    clock.pass_(0.5)
    assert desk.report.touch(job, visibility=HOUR).until == job.started_at + MINUTE


def test_progress_is_kept_and_moves_no_deadline(desk: Desk) -> None:
    put(desk)
    job = take(desk, visibility=MINUTE)
    desk.report.touch(job, progress=0.4)
    after = seen(desk, job.id)
    assert (after.progress, after.until, after.revision) == (0.4, job.until, job.revision)


@pytest.mark.parametrize("progress", [-0.1, 1.1, float("nan")])
def test_progress_is_a_fraction(desk: Desk, progress: float) -> None:
    job = running(desk)
    with pytest.raises(BadInput, match="fraction"):
        desk.report.touch(job, progress=progress)
    assert seen(desk, job.id).progress == 0.0


def test_a_bare_touch_asks_whether_the_lease_still_holds(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    put(desk)
    job = take(desk, visibility=SECOND)
    before = snapshot(store)
    desk.report.touch(job)
    assert snapshot(store) == before
    clock.pass_(1)
    recover(desk.clerk)
    with pytest.raises(LeaseLost):
        desk.report.touch(job)


# -- giving back ---------------------------------------------------------------------------


def test_a_job_given_back_has_not_been_tried(desk: Desk) -> None:
    job = running(desk)
    after = desk.report.release(job)
    assert (after.state, after.attempt, after.crashes) == (State.QUEUED, 0, 0)
    assert (after.token, after.session, after.until) == (None, None, None)
    again = take(desk)
    assert (again.id, again.attempt) == (job.id, 1)
    assert again.token != job.token


def test_a_job_given_back_may_be_put_off_with_another_payload(
    desk: Desk, clock: VirtualClock
) -> None:
    job = running(desk, payload=b"1")
    desk.report.release(job, due_at=clock.now + MINUTE, payload=b"2")
    assert take_all(desk) == []
    clock.pass_(60)
    again = take(desk)
    assert (again.id, again.payload, again.scheduled_at) == (job.id, b"2", job.scheduled_at)


def test_a_job_to_be_cancelled_is_cancelled_when_it_is_given_back(desk: Desk) -> None:
    job = running(desk)
    desk.control.cancel(job.id)
    assert desk.report.release(job).state is State.CANCELLED
    assert take_all(desk) == []


def test_a_job_that_was_never_claimed_cannot_be_reported(desk: Desk, store: Store) -> None:
    job = seen(desk, put(desk))
    before = snapshot(store)
    with pytest.raises((LeaseLost, IllegalMove)):
        desk.report.finish(job)
    assert snapshot(store) == before
