"""What may be done to a job from outside: each rule's Change, to the letter."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.errors import BadInput, IllegalMove
from stoker.kernel import control
from stoker.kernel.change import Change, Tally, Write
from stoker.kernel.ending import PARENT_GRACE, forget
from stoker.kernel.job import Format, Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.queue import QueueSettings, Retention
from stoker.kernel.window import parse_windows
from tests.kernel.samples import DAY, HOUR, MINUTE, NO_LEASE, NOW, is_over, job_in

DAWN = NOW - NOW % DAY + DAY + 5 * HOUR
MORNING = parse_windows("05:00-07:00")
OVERLAPPING = "every 10m; overlap=allow"
LIVING = [State.QUEUED, State.RUNNING, State.WAITING]
ENDED = [State.FINISHED, State.FAILED, State.CANCELLED]


# -- enqueue -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "asked", "scheduled_at", "due_at"),
    [
        (Policy(), None, NOW, NOW),
        (Policy(), NOW + 5, NOW + 5, NOW + 5),
        (Policy(), NOW - DAY, NOW - DAY, NOW - DAY),
        (Policy(repeat="every 10m"), None, NOW + 10 * MINUTE, NOW + 10 * MINUTE),
        (Policy(repeat="every 10m"), NOW + 5, NOW + 5, NOW + 5),
        (Policy(repeat="FINISHED, +1 HOUR"), None, NOW, NOW),
        (Policy(windows=MORNING), None, NOW, DAWN),
        (Policy(windows=MORNING), DAWN + 7, DAWN + 7, DAWN + 7),
    ],
)
def test_a_new_job_is_due_when_it_was_asked_for_or_as_soon_as_may_be(
    policy: Policy, asked: int | None, scheduled_at: int, due_at: int
) -> None:
    job = Job("q", payload=b"p", rank=3, policy=policy)
    change = control.enqueue(job, now=NOW, due_at=asked)
    expected = msgspec.structs.replace(
        job, created_at=NOW, scheduled_at=scheduled_at, due_at=due_at
    )
    assert change == Change(inserts=(expected,))


def test_a_schedule_with_overlapping_runs_waits_for_its_ticks() -> None:
    job = Job("q", policy=Policy(repeat=OVERLAPPING))
    (made,) = control.enqueue(job, now=NOW).inserts
    first = NOW + 10 * MINUTE
    assert (made.state, made.waits_for) == (State.WAITING, "tick")
    assert (made.due_at, made.until, made.scheduled_at) == (first, first, first)


# -- cancel --------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [State.QUEUED, State.WAITING])
@pytest.mark.parametrize("kept", [DAY, 9, None])
def test_what_does_not_run_is_cancelled_at_once(state: State, kept: int | None) -> None:
    job = job_in(state, parent_id=2, undecided=True)
    settings = QueueSettings(retention=Retention(cancelled=kept))
    until = None if kept is None else NOW + kept
    fields = {**NO_LEASE, "state": State.CANCELLED, "ended_at": NOW, "until": until}
    fields |= {"undecided": False} | ({"waits_for": None} if state is State.WAITING else {})
    assert control.cancel(job, now=NOW, settings=settings) == Change(
        writes=(Write(job, fields),),
        tallies=(Tally(2, State.CANCELLED),),
        notes=(is_over(job),) if state is State.WAITING else (),
    )


def test_what_is_cancelled_and_not_kept_is_deleted() -> None:
    job = job_in(State.QUEUED)
    settings = QueueSettings(retention=Retention(cancelled=0))
    change = control.cancel(job, now=NOW, settings=settings)
    assert (change.deletes, change.writes) == ((job,), ())
    assert [ended.state for ended in change.last] == [State.CANCELLED]


def test_what_runs_is_asked_to_stop() -> None:
    job = job_in(State.RUNNING, parent_id=2)
    expected = Change(writes=(Write(job, {"cancel_requested": True}),))
    assert control.cancel(job, now=NOW) == expected


# -- revive --------------------------------------------------------------------------------

AFRESH = {
    "scheduled_at": NOW,
    "attempt": 0,
    "crashes": 0,
    "started_at": None,
    "ended_at": None,
    "cancel_requested": False,
    "parent_id": None,
    "result": None,
}


@pytest.mark.parametrize("state", ENDED)
@pytest.mark.parametrize(("windows", "due_at"), [(None, NOW), (MORNING, DAWN)])
def test_an_ended_job_begins_afresh_and_alone(state: State, windows: Any, due_at: int) -> None:
    job = job_in(state, parent_id=2, cancel_requested=True, policy=Policy(windows=windows))
    seat = {"state": State.QUEUED, "waits_for": None, "due_at": due_at, "until": None}
    assert control.revive(job, now=NOW) == Change(writes=(Write(job, seat | AFRESH),))


def test_a_revived_schedule_waits_for_its_tick() -> None:
    job = job_in(State.CANCELLED, policy=Policy(repeat=OVERLAPPING))
    seat = {"state": State.WAITING, "waits_for": "tick", "due_at": NOW, "until": NOW}
    assert control.revive(job, now=NOW) == Change(writes=(Write(job, seat | AFRESH),))


# -- edit ----------------------------------------------------------------------------------


@pytest.mark.parametrize("state", State)
def test_what_a_job_is_about_may_change_in_every_state(state: State) -> None:
    job = job_in(state)
    changes = {"payload": b"p", "format": Format.TEXT, "meta": "m"}
    assert control.edit(job, changes) == Change(writes=(Write(job, changes),))


@pytest.mark.parametrize("state", [State.QUEUED, State.WAITING])
def test_the_place_of_a_job_may_change_before_it_runs(state: State) -> None:
    job = job_in(state)
    changes = {"queue": "r", "name": "n", "rank": 1, "weight": 0, "key": "k", "unique_key": "u"}
    assert control.edit(job, changes) == Change(writes=(Write(job, changes),))


@pytest.mark.parametrize("state", [State.RUNNING, *ENDED])
def test_the_place_of_a_job_is_fixed_once_it_runs(state: State) -> None:
    with pytest.raises(IllegalMove, match="cannot change key, rank of job 5"):
        control.edit(job_in(state), {"rank": 1, "key": "k", "payload": b"p"})


def test_an_unknown_fact_cannot_be_edited() -> None:
    with pytest.raises(BadInput, match="cannot edit colour, state; editable: due_at, format, key"):
        control.edit(job_in(State.QUEUED), {"state": State.FINISHED, "colour": "red"})


@pytest.mark.parametrize(
    ("changes", "due_at"),
    [
        ({"due_at": NOW + 5}, NOW + 5),
        ({"policy": Policy(timeout=9)}, NOW - MINUTE),
        ({"policy": Policy(windows=MORNING), "due_at": NOW}, DAWN),
    ],
)
def test_a_queued_job_with_another_time_or_policy_stays_queued(
    changes: dict[str, Any], due_at: int
) -> None:
    job = job_in(State.QUEUED)
    seat = {"state": State.QUEUED, "waits_for": None, "due_at": due_at, "until": None}
    assert control.edit(job, changes) == Change(writes=(Write(job, changes | seat),))


@pytest.mark.parametrize(
    ("changes", "scheduled"),
    [
        ({"policy": Policy(repeat="every 1h"), "due_at": NOW + 5}, {"scheduled_at": NOW + 5}),
        ({"policy": Policy(repeat="every 7d", timeout=9), "due_at": NOW + 5}, {}),
        ({"policy": Policy(repeat="every 1h")}, {}),
        ({"due_at": NOW + 5}, {}),
    ],
)
def test_another_repeat_with_a_time_of_its_own_counts_from_that_time(
    changes: dict[str, Any], scheduled: dict[str, int]
) -> None:
    job = job_in(State.QUEUED, policy=Policy(repeat="every 7d"))
    (write,) = control.edit(job, changes).writes
    assert {name: at for name, at in write.set.items() if name == "scheduled_at"} == scheduled


def test_a_queued_job_that_is_to_overlap_becomes_a_schedule_and_back_again() -> None:
    ticking, plain = Policy(repeat=OVERLAPPING), Policy()
    job = job_in(State.QUEUED)
    due = job.due_at
    seat: dict[str, Any]
    seat = {"state": State.WAITING, "waits_for": "tick", "due_at": due, "until": due}
    assert control.edit(job, {"policy": ticking}).writes[0].set == {"policy": ticking, **seat}
    schedule = job_in(State.WAITING, waits_for="tick", policy=ticking)
    seat = {"state": State.QUEUED, "waits_for": None, "due_at": due, "until": None}
    assert control.edit(schedule, {"policy": plain}).writes[0].set == {"policy": plain, **seat}


@pytest.mark.parametrize("state", [State.RUNNING, *ENDED])
def test_a_new_policy_moves_no_job_that_is_not_waiting_for_its_turn(state: State) -> None:
    ticking = Policy(repeat=OVERLAPPING)
    assert control.edit(job_in(state), {"policy": ticking}).writes[0].set == {"policy": ticking}


# -- delete and forget ---------------------------------------------------------------------


@pytest.mark.parametrize("state", [State.QUEUED, State.WAITING])
def test_a_living_child_that_is_deleted_counts_as_cancelled(state: State) -> None:
    job = job_in(state, parent_id=2)
    assert control.delete(job) == Change(deletes=(job,), tallies=(Tally(2, State.CANCELLED),))
    alone = job_in(state)
    assert control.delete(alone) == Change(deletes=(alone,))


@pytest.mark.parametrize("state", ENDED)
def test_an_ended_child_that_is_deleted_was_counted_already(state: State) -> None:
    job = job_in(state, parent_id=2)
    assert control.delete(job) == Change(deletes=(job,))


@pytest.mark.parametrize("state", LIVING)
def test_a_child_is_not_forgotten_while_its_parent_lives(state: State) -> None:
    job = job_in(State.FINISHED, parent_id=2)
    change = forget(job, job_in(state, id=2), now=NOW)
    assert change == Change(writes=(Write(job, {"until": NOW + PARENT_GRACE}),))


@pytest.mark.parametrize("parent", [None, *(job_in(state, id=2) for state in ENDED)])
def test_a_job_whose_parent_is_over_or_missing_is_forgotten(parent: Job | None) -> None:
    job = job_in(State.FAILED, parent_id=2)
    assert forget(job, parent, now=NOW) == Change(deletes=(job,))
