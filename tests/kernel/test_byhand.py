"""What may be decided about a job without its lease: each rule's Change, to the letter."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.errors import IllegalMove
from stoker.kernel import byhand, control, rules
from stoker.kernel.change import Change, Tally, Write, applied
from stoker.kernel.job import Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.queue import QueueSettings, Retention
from tests.kernel.samples import HOUR, NOW, is_over, job_in

REPLACE = msgspec.structs.replace
FORGETFUL = QueueSettings(retention=Retention(finished=0))
REPEATING = Policy(repeat="FINISHED, +1 HOUR")
NOT_RUNNING = [state for state in State if state is not State.RUNNING]
ENDED = [State.FINISHED, State.FAILED, State.CANCELLED]


def after(job: Job, change: Change) -> Job:
    """The job when the change is done."""
    (write,) = change.writes
    assert write.job is job
    return applied(job, write)


def running(**facts: Any) -> Job:
    return REPLACE(job_in(State.RUNNING), **facts)


def test_finishing_is_what_a_worker_does_with_facts_besides() -> None:
    job = running()
    change = byhand.finish(job, now=NOW, facts={"payload": b"p", "meta": "m"})
    done = after(job, change)
    assert (done.state, done.payload, done.meta) == (State.FINISHED, b"p", "m")
    assert byhand.finish(job, now=NOW, facts={}) == rules.finish(job, now=NOW)


def test_a_job_that_is_not_kept_takes_no_facts() -> None:
    job = running()
    change = byhand.finish(job, now=NOW, facts={"meta": "m"}, settings=FORGETFUL)
    assert (change.deletes, change.writes) == ((job,), ())


def test_ended_children_go_and_are_counted_no_more() -> None:
    kin = [Job("q", id=8, state=State.FINISHED), Job("q", id=9, state=State.CANCELLED)]
    job = running(open_children=1, finished_children=1, cancelled_children=1)
    change = byhand.finish(job, kin, now=NOW, facts={})
    waiting = after(job, change)
    assert change.deletes == tuple(kin)
    assert (waiting.state, waiting.open_children) == (State.WAITING, 1)
    assert (waiting.finished_children, waiting.cancelled_children) == (0, 0)


@pytest.mark.parametrize("state", NOT_RUNNING)
def test_a_job_that_does_not_run_is_finished_only_if_that_is_wanted(state: State) -> None:
    job = job_in(state)
    with pytest.raises(IllegalMove):
        byhand.finish(job, now=NOW, facts={})
    assert byhand.finish(job, now=NOW, facts={}, anyway=True) == control.delete(job)


def test_a_retry_moves_the_job_and_forgets_lost_tries() -> None:
    job = running(attempt=4, crashes=2)
    again = after(job, byhand.retry(job, now=NOW, at=NOW + 5, facts={"rank": -3}))
    assert (again.state, again.due_at, again.scheduled_at) == (State.QUEUED, NOW + 5, NOW + 5)
    assert (again.attempt, again.crashes, again.rank, again.token) == (0, 0, -3, None)


def test_a_retry_goes_by_the_repeat_unless_told_otherwise() -> None:
    job = running(policy=REPEATING)
    by_repeat = after(job, byhand.retry(job, now=NOW, at=NOW + 5, facts={}))
    assert (by_repeat.due_at // HOUR, by_repeat.error) == ((NOW + HOUR) // HOUR, None)
    once = after(job, byhand.retry(job, now=NOW, at=NOW + 5, facts={}, repeat=False))
    assert once.due_at == NOW + 5


def test_a_job_that_was_to_be_cancelled_is_not_retried() -> None:
    job = running(cancel_requested=True)
    assert after(job, byhand.retry(job, now=NOW, at=NOW, facts={})).state is State.CANCELLED


@pytest.mark.parametrize("state", [State.QUEUED, *ENDED])
def test_a_job_that_does_not_run_is_retried_only_if_that_is_wanted(state: State) -> None:
    job = job_in(state)
    with pytest.raises(IllegalMove):
        byhand.retry(job, now=NOW, at=NOW + 5, facts={})
    again = after(job, byhand.retry(job, now=NOW, at=NOW + 5, facts={}, anyway=True))
    assert (again.state, again.due_at) == (State.QUEUED, NOW + 5)


def test_failing_is_for_good() -> None:
    job = running(policy=REPEATING)
    failed = after(job, byhand.fail(job, now=NOW, reason="rain", facts={"payload": b"p"}))
    assert (failed.state, failed.error, failed.payload) == (State.FAILED, "rain", b"p")


@pytest.mark.parametrize("state", State)
def test_requeueing_leads_back_from_everywhere(state: State) -> None:
    job = job_in(state)
    back = after(job, byhand.requeue(job, now=NOW, at=7, facts={"name": "n"}))
    assert (back.state, back.due_at, back.name, back.token) == (State.QUEUED, 7, "n", None)


def test_a_job_that_is_requeued_no_longer_waits_for_its_answer() -> None:
    job = job_in(State.WAITING)
    assert byhand.requeue(job, now=NOW, at=7, facts={}).notes == (is_over(job),)


@pytest.mark.parametrize(("uncounted", "tries"), [(False, 3), (True, 2)])
def test_requeueing_may_take_back_a_try(uncounted: bool, tries: int) -> None:
    job = running(attempt=3)
    back = after(job, byhand.requeue(job, now=NOW, at=7, facts={}, uncounted=uncounted))
    assert back.attempt == tries


@pytest.mark.parametrize("state", State)
def test_an_amendment_may_set_the_next_time_in_line_in_every_state(state: State) -> None:
    job = job_in(state)
    facts = {"payload": b"p", "rank": -1, "due_at": NOW + 9, "scheduled_at": NOW + 9}
    amended = after(job, byhand.amend(job, facts))
    assert {name: getattr(amended, name) for name in facts} == facts
    assert amended.state is state


def test_an_amendment_moves_the_end_of_a_lease_that_has_one() -> None:
    bound, free = running(until=NOW + 1), running(until=None)
    assert after(bound, byhand.amend(bound, {"due_at": NOW + 9})).until == NOW + 9
    assert after(free, byhand.amend(free, {"due_at": NOW + 9})).until is None


@pytest.mark.parametrize("fact", ["queue", "key", "weight", "unique_key"])
def test_an_amendment_moves_no_running_job_elsewhere(fact: str) -> None:
    with pytest.raises(IllegalMove):
        byhand.amend(running(), {fact: 1 if fact == "weight" else "x"})


def test_a_running_job_is_discarded_only_if_its_lease_would_end() -> None:
    child = running(until=NOW + 1, parent_id=3)
    assert byhand.discard(child) == Change(deletes=(child,), tallies=(Tally(3, State.CANCELLED),))
    with pytest.raises(IllegalMove):
        byhand.discard(running(until=None))
    queued = job_in(State.QUEUED)
    assert byhand.discard(queued) == control.delete(queued)


def test_beginning_is_what_a_claim_does() -> None:
    job = job_in(State.QUEUED)
    change = byhand.begin(job, now=NOW, token=5)
    assert after(job, change) == rules.start(job, now=NOW, token=5)
    assert change == Change(writes=(Write(job, change.writes[0].set),))
