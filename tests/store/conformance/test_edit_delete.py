"""Editing, reviving and deleting: what may be done to a job from outside."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.desk import Desk
from stoker.errors import BadInput, IllegalMove, NotFound, Refused
from stoker.kernel.job import Format, Job, State
from stoker.kernel.outcome import Awaits
from stoker.kernel.policy import Policy
from stoker.kernel.queue import Order, QueueSettings
from stoker.kernel.retry_forms import fixed
from stoker.store import Filter, Store
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    BROKEN,
    DAY,
    HOUR,
    MINUTE,
    Facts,
    exists,
    put,
    running,
    seen,
    snapshot,
    state,
    take,
    take_all,
)

ALWAYS: dict[str, Any] = {
    "payload": b"new",
    "format": Format.TEXT,
    "meta": "m",
    "policy": Policy(timeout=MINUTE, retry=fixed("1s", limit=3)),
}
PLACE: dict[str, Any] = {
    "queue": "other",
    "name": "n",
    "rank": -3,
    "due_at": 5,
    "weight": 250,
    "key": "k",
    "unique_key": "u",
}


def in_state(desk: Desk, wanted: State) -> Job:
    """A job in that state."""
    if wanted is State.QUEUED:
        return seen(desk, put(desk))
    if wanted is State.CANCELLED:
        return desk.control.cancel(put(desk))
    job = running(desk)
    if wanted is State.WAITING:
        return desk.report.wait(job, Awaits("k"))
    if wanted is State.FINISHED:
        return desk.report.finish(job)
    return desk.report.fail(job, BROKEN) if wanted is State.FAILED else job


# -- many at once --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "refused"),
    [
        ("cancel_many", {State.FINISHED, State.FAILED, State.CANCELLED}),
        ("revive_many", {State.QUEUED, State.RUNNING, State.WAITING}),
        ("delete_many", {State.RUNNING}),
    ],
)
def test_many_jobs_are_treated_in_one_call_each_on_its_own(
    desk: Desk, act: str, refused: set[State]
) -> None:
    jobs = {wanted: in_state(desk, wanted) for wanted in reversed(State)}
    ids = [*(job.id for job in jobs.values()), 404]
    *results, missing = getattr(desk.control, act)(ids)
    assert isinstance(missing, NotFound)
    for (wanted, job), result in zip(jobs.items(), results, strict=True):
        if wanted in refused:
            assert isinstance(result, IllegalMove)
            assert seen(desk, job.id) == job
        elif act == "delete_many":
            assert (result, exists(desk, job.id)) == (job, False)
        else:
            assert result == seen(desk, job.id) != job


# -- editing -------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", State)
@pytest.mark.parametrize("fact", ALWAYS)
def test_what_a_job_is_about_can_be_edited_at_any_time(
    desk: Desk, wanted: State, fact: str
) -> None:
    job = in_state(desk, wanted)
    after = desk.control.edit(job.id, {fact: ALWAYS[fact]})
    assert getattr(after, fact) == ALWAYS[fact]
    assert (after.state, after.revision) == (wanted, job.revision + 1)
    assert seen(desk, job.id) == after


@pytest.mark.parametrize("wanted", State)
@pytest.mark.parametrize("fact", PLACE)
def test_the_place_of_a_job_can_be_edited_only_before_it_runs(
    desk: Desk, store: Store, wanted: State, fact: str
) -> None:
    job = in_state(desk, wanted)
    if wanted in (State.QUEUED, State.WAITING):
        after = desk.control.edit(job.id, {fact: PLACE[fact]})
        assert (getattr(after, fact), after.state) == (PLACE[fact], wanted)
        assert seen(desk, job.id) == after
        return
    before = snapshot(store)
    with pytest.raises(IllegalMove, match=f"cannot change {fact}"):
        desk.control.edit(job.id, {fact: PLACE[fact]})
    assert snapshot(store) == before


@pytest.mark.parametrize("fact", ["id", "state", "token", "attempt", "ref", "parent_id", "colour"])
def test_what_is_not_to_be_edited_is_refused_with_all_that_is(desk: Desk, fact: str) -> None:
    job_id = put(desk, payload=b"old")
    with pytest.raises(BadInput, match=rf"cannot edit {fact}; editable: .*payload"):
        desk.control.edit(job_id, {fact: 1, "payload": b"new"})
    assert seen(desk, job_id).payload == b"old"


@pytest.mark.parametrize(
    "facts", [{"payload": "text"}, {"rank": 2**63}, {"weight": -1}, {"key": "\ud800"}], ids=str
)
def test_what_cannot_be_kept_cannot_be_edited_in(desk: Desk, store: Store, facts: Facts) -> None:
    job_id = put(desk)
    before = snapshot(store)
    with pytest.raises(BadInput, match=next(iter(facts))):
        desk.control.edit(job_id, {"meta": "m", **facts})
    assert snapshot(store) == before


def test_many_facts_are_edited_in_one_step(desk: Desk) -> None:
    job_id = put(desk)
    after = desk.control.edit(job_id, {**ALWAYS, **PLACE})
    for fact, value in {**ALWAYS, **PLACE}.items():
        assert getattr(after, fact) == value, fact
    assert seen(desk, job_id) == after
    assert take(desk, "other").id == job_id


def test_a_job_moved_to_another_queue_is_found_only_there(desk: Desk) -> None:
    desk.control.configure("other", QueueSettings(order=Order.TIME_RANK))
    job_id, rival = put(desk, rank=9), put(desk, "other", rank=3)
    desk.control.edit(job_id, {"queue": "other"})
    assert take_all(desk) == []
    assert take_all(desk, "other") == [rival, job_id]


def test_a_job_put_off_or_brought_forward_by_an_edit_is_due_then(
    desk: Desk, clock: VirtualClock
) -> None:
    soon, late = put(desk), put(desk, key="k", due_at=clock.now + DAY)
    desk.control.edit(soon, {"due_at": clock.now + HOUR})
    desk.control.edit(late, {"due_at": clock.now})
    assert take_all(desk) == [late]
    clock.now += HOUR
    assert take_all(desk) == [soon]


def test_an_edit_on_a_copy_that_was_seen_is_refused_when_the_job_has_changed(desk: Desk) -> None:
    job_id = put(desk)
    first = desk.control.edit(job_id, {"payload": b"1"}, revision=0)
    with pytest.raises(Refused, match="changed since you saw it"):
        desk.control.edit(job_id, {"payload": b"2"}, revision=0)
    desk.control.edit(job_id, {"payload": b"3"}, revision=first.revision)
    assert seen(desk, job_id).payload == b"3"


def test_a_queued_job_whose_weight_becomes_zero_no_longer_waits_for_room(desk: Desk) -> None:
    desk.control.configure("q", QueueSettings(capacity=1))
    running(desk)
    job_id = put(desk)
    assert take_all(desk) == []
    desk.control.edit(job_id, {"weight": 0})
    assert take_all(desk) == [job_id]


def test_a_job_that_does_not_exist_cannot_be_edited_revived_or_deleted(desk: Desk) -> None:
    with pytest.raises(NotFound):
        desk.control.edit(404, {"payload": b""})
    with pytest.raises(NotFound):
        desk.control.revive(404)
    with pytest.raises(NotFound):
        desk.control.delete(404)


# -- reviving ------------------------------------------------------------------------------


@pytest.mark.parametrize("ended", [State.FINISHED, State.FAILED, State.CANCELLED])
def test_an_ended_job_can_be_run_afresh(desk: Desk, clock: VirtualClock, ended: State) -> None:
    job = in_state(desk, ended)
    clock.pass_(60)
    after = desk.control.revive(job.id)
    assert (after.state, after.due_at, after.scheduled_at) == (State.QUEUED, clock.now, clock.now)
    assert (after.attempt, after.crashes, after.until) == (0, 0, None)
    assert (after.started_at, after.ended_at, after.result) == (None, None, None)
    assert seen(desk, job.id) == after
    again = take(desk)
    assert (again.id, again.attempt) == (job.id, 1)


@pytest.mark.parametrize("wanted", [State.QUEUED, State.RUNNING, State.WAITING])
def test_a_job_that_has_not_ended_cannot_be_revived(
    desk: Desk, store: Store, wanted: State
) -> None:
    job = in_state(desk, wanted)
    before = snapshot(store)
    with pytest.raises(IllegalMove, match="cannot revive"):
        desk.control.revive(job.id)
    assert snapshot(store) == before


# -- deleting ------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [state for state in State if state is not State.RUNNING])
@pytest.mark.parametrize(
    "facts", [{}, {"key": "k", "payload": b"x" * 5000}], ids=["plain", "keyed and big"]
)
def test_a_job_that_is_not_running_can_be_deleted_without_a_trace(
    desk: Desk, store: Store, wanted: State, facts: Facts
) -> None:
    job = in_state(desk, wanted)
    if wanted in (State.QUEUED, State.WAITING):
        job = desk.control.edit(job.id, facts)
    assert desk.control.delete(job.id) == job
    assert not exists(desk, job.id)
    assert store.find(Filter()) == []
    assert take_all(desk) == []
    (view,) = store.survey(["q"])
    assert (set(view.counts.values()), view.used) == ({0}, 0)


def test_a_running_job_cannot_be_deleted(desk: Desk) -> None:
    job = running(desk)
    with pytest.raises(IllegalMove, match="cannot delete"):
        desk.control.delete(job.id)
    assert state(desk, job.id) is State.RUNNING


def test_a_deleted_job_stays_deleted(desk: Desk) -> None:
    job_id = put(desk)
    desk.control.delete(job_id)
    with pytest.raises(NotFound):
        desk.control.delete(job_id)


def test_what_was_changed_while_it_waited_is_what_the_worker_gets(desk: Desk) -> None:
    job_id = put(desk)
    desk.control.edit(job_id, {"weight": 2000})
    job = take(desk)
    assert (job.id, job.weight, job.revision) == (job_id, 2000, 2)
