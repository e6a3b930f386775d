"""Finish, Retry, Fail, Cancel, Delete, Requeue and Update, in every state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.bedrock.teller import Teller
from tests.engines import VirtualClock

NO_JOB = "404 No job with this jobID"
NOT_RUNNING = "405 Can only retry/finish RUNNING and RUNQUEUED jobs"
CANNOT_FAIL = "405 Can only fail RUNNING or RUNQUEUED jobs"
CANNOT_CANCEL = "405 Can only cancel QUEUED and PAUSED jobs"
OK = "200 OK"


def running(teller: Teller, name: str = "foo") -> int:
    return teller.begun(name)


def runqueued(teller: Teller, name: str = "foo") -> int:
    return teller.begun(name, retryAfter="+1 HOUR")


def paused_child(teller: Teller, name: str = "child") -> int:
    return teller.create(name, parentJobID=teller.begun(f"parent of {name}"))


def finished_child(teller: Teller, name: str) -> int:
    child = paused_child(teller, name)
    parent = child - 1
    teller.create(f"sibling of {name}", parentJobID=parent)
    teller.ok("FinishJob", jobID=parent)
    teller.get(name)
    teller.ok("FinishJob", jobID=child)
    return child


def failed(teller: Teller, name: str) -> int:
    job_id = running(teller, name)
    teller.ok("FailJob", jobID=job_id)
    return job_id


def cancelled(teller: Teller, name: str) -> int:
    job_id = teller.create(name)
    teller.ok("CancelJob", jobID=job_id)
    return job_id


STATES: dict[str, Callable[[Teller, str], int]] = {
    "QUEUED": lambda teller, name: teller.create(name),
    "RUNNING": running,
    "RUNQUEUED": runqueued,
    "PAUSED": paused_child,
    "FINISHED": finished_child,
    "FAILED": failed,
    "CANCELLED": cancelled,
}
TABLE: dict[str, dict[str, tuple[str, str | None]]] = {
    "FinishJob": {
        "QUEUED": (NOT_RUNNING, "QUEUED"),
        "RUNNING": (OK, None),
        "RUNQUEUED": (OK, None),
        "PAUSED": (NOT_RUNNING, "PAUSED"),
        "FINISHED": (NOT_RUNNING, "FINISHED"),
        "FAILED": (NOT_RUNNING, "FAILED"),
        "CANCELLED": (NOT_RUNNING, "CANCELLED"),
    },
    "RetryJob": {
        "QUEUED": (NOT_RUNNING, "QUEUED"),
        "RUNNING": (OK, "QUEUED"),
        "RUNQUEUED": (OK, "QUEUED"),
        "PAUSED": (NOT_RUNNING, "PAUSED"),
        "FINISHED": (NOT_RUNNING, "FINISHED"),
        "FAILED": (NOT_RUNNING, "FAILED"),
        "CANCELLED": (NOT_RUNNING, "CANCELLED"),
    },
    "FailJob": {
        "QUEUED": (CANNOT_FAIL, "QUEUED"),
        "RUNNING": (OK, "FAILED"),
        "RUNQUEUED": (OK, "FAILED"),
        "PAUSED": (CANNOT_FAIL, "PAUSED"),
        "FINISHED": (CANNOT_FAIL, "FINISHED"),
        "FAILED": (CANNOT_FAIL, "FAILED"),
        "CANCELLED": (CANNOT_FAIL, "CANCELLED"),
    },
    "CancelJob": {
        "QUEUED": (OK, "CANCELLED"),
        "RUNNING": (CANNOT_CANCEL, "RUNNING"),
        "RUNQUEUED": (CANNOT_CANCEL, "RUNQUEUED"),
        "PAUSED": (OK, "CANCELLED"),
        "FINISHED": (CANNOT_CANCEL, "FINISHED"),
        "FAILED": (CANNOT_CANCEL, "FAILED"),
        "CANCELLED": (OK, "CANCELLED"),
    },
    "DeleteJob": {
        "QUEUED": (OK, None),
        "RUNNING": ("405 Can't delete a RUNNING job", "RUNNING"),
        "RUNQUEUED": (OK, None),
        "PAUSED": ("405 Can't delete a parent jobs with children running", "PAUSED"),
        "FINISHED": (OK, None),
        "FAILED": (OK, None),
        "CANCELLED": (OK, None),
    },
    "RequeueJobs": dict.fromkeys(STATES, (OK, "QUEUED")),
    "UpdateJob": {state: (OK, state) for state in STATES},
}


@pytest.mark.parametrize("verb", TABLE)
def test_every_command_in_every_state(teller: Teller, verb: str) -> None:
    which = "jobIDs" if verb == "RequeueJobs" else "jobID"
    data = {"data": {"new": 1}} if verb == "UpdateJob" else {}
    ids = {state: STATES[state](teller, state) for state in STATES}
    assert {state: teller.state(job_id) for state, job_id in ids.items()} == {
        state: state for state in STATES
    }
    for state, (status, after) in TABLE[verb].items():
        assert teller(verb, **{which: ids[state]}, **data).status == status, state
        assert teller.state(ids[state]) == after, state


# -- FinishJob and RetryJob ----------------------------------------------------------------


def test_finishing_leaves_no_trace(teller: Teller) -> None:
    job_id = running(teller)
    teller.ok("FinishJob", jobID=job_id)
    assert teller("FinishJob", jobID=job_id).status == NO_JOB
    assert teller("DeleteJob", jobID=job_id).status == NO_JOB


def test_a_retried_job_is_there_again_at_once(teller: Teller) -> None:
    job_id = running(teller)
    teller.ok("RetryJob", jobID=job_id)
    assert teller.get("foo")["jobID"] == job_id


def test_a_retry_may_wait_for_a_delay_or_a_time(teller: Teller, clock: VirtualClock) -> None:
    job_id = running(teller)
    teller.ok("RetryJob", jobID=job_id, delay=2)
    assert teller("GetJob", name="foo").status == "404 No job found"
    clock.pass_(2)
    job = teller.get("foo")
    assert (job["nextRun"], job["lastRun"]) == ("2023-11-14 22:13:22", "2023-11-14 22:13:20")
    teller.ok("RetryJob", jobID=job_id, nextRun="2023-11-15", delay="no number")
    assert teller.query(job_id)["nextRun"] == "2023-11-15 00:00:00"
    clock.pass_(86_400)
    assert teller.get("foo")["jobID"] == job_id


def test_a_retry_may_give_a_new_name_new_data_and_a_new_priority(teller: Teller) -> None:
    job_id = running(teller)
    teller.ok("RetryJob", jobID=job_id, name="bar", data={"x": 1}, jobPriority=1000)
    assert teller("GetJob", name="foo").status == "404 No job found"
    job = teller.get("bar")
    assert (job["data"], job["priority"], job["name"]) == ({"x": 1}, 1000, "bar")


def test_finishing_and_failing_may_leave_data(teller: Teller) -> None:
    job_id = running(teller)
    teller.ok("FailJob", jobID=job_id, data={"why": "rain"})
    assert teller.query(job_id)["data"] == {"why": "rain"}
    child = paused_child(teller)
    teller.ok("FinishJob", jobID=child - 1)
    teller.get("child")
    teller.ok("FinishJob", jobID=child, data={"sum": 3})
    assert teller.get("parent of child")["finishedChildJobs"] == [
        {"data": {"sum": 3}, "jobID": child}
    ]


# -- UpdateJob -----------------------------------------------------------------------------


def test_an_update_replaces_the_data_and_nothing_else(teller: Teller) -> None:
    job_id = teller.begun("foo", data={"a": 1}, jobPriority=1000)
    before = teller.query(job_id)
    teller.ok("UpdateJob", jobID=job_id, data='{ "b": 2 }', name="x", state="x", retryAfter="x")
    assert teller.query(job_id) == {**before, "data": {"b": 2}}


@pytest.mark.parametrize("state", ["QUEUED", "RUNNING"])
def test_an_update_may_set_time_and_priority_of_the_next_run(teller: Teller, state: str) -> None:
    job_id = STATES[state](teller, "foo")
    teller.ok("UpdateJob", jobID=job_id, data={}, jobPriority=1000, nextRun="2042-01-01")
    after = teller.query(job_id)
    assert (after["nextRun"], after["priority"]) == ("2042-01-01 00:00:00", 1000)
    assert after["state"] == state


@pytest.mark.parametrize(
    ("repeat", "next_run"),
    [
        ("SCHEDULED, +1 HOUR", "2023-11-14 23:13:20"),
        ("STARTED, +1 HOUR", "2023-11-14 23:13:30"),
        ("FINISHED, +1 HOUR", "2023-11-14 23:13:40"),
    ],
)
def test_a_new_repeat_moves_the_next_run(
    teller: Teller, clock: VirtualClock, repeat: str, next_run: str
) -> None:
    job_id = teller.create("foo")
    clock.pass_(10)
    teller.get("foo")
    clock.pass_(10)
    teller.ok("UpdateJob", jobID=job_id, data={}, repeat=repeat.lower())
    after = teller.query(job_id)
    assert (after["nextRun"], after["repeat"]) == (next_run, repeat)
    teller.ok("UpdateJob", jobID=job_id, data={}, repeat="")
    assert teller.query(job_id) == after


def test_a_repeat_can_be_cleared(teller: Teller) -> None:
    job_id = teller.begun("foo", repeat="DAILY")
    teller.ok("UpdateJob", jobID=job_id, data={}, shouldClearRepeat="true")
    assert teller.query(job_id)["repeat"] == "DAILY"
    teller.ok("UpdateJob", jobID=job_id, data={}, shouldClearRepeat=1)
    assert teller.query(job_id)["repeat"] == ""
    teller.ok("FinishJob", jobID=job_id)
    assert teller.state(job_id) is None


def test_a_job_with_retry_after_cannot_be_made_to_repeat(teller: Teller) -> None:
    job_id = teller.create("foo", retryAfter="+1 HOUR")
    answer = teller("UpdateJob", jobID=job_id, data={}, repeat="DAILY")
    assert answer.status == "402 Cannot combine retryAfter with repeat"


# -- RequeueJobs ---------------------------------------------------------------------------


def test_requeued_jobs_are_back_where_they_began(teller: Teller, clock: VirtualClock) -> None:
    first, second, third = running(teller), teller.create("bar", firstRun="2042-01-01"), 99
    clock.pass_(100)
    teller.ok("RequeueJobs", jobIDs=f"{first}, {second},{third},x", name="new")
    for job_id in (first, second):
        job = teller.query(job_id)
        assert (job["state"], job["name"]) == ("QUEUED", "new")
        assert job["nextRun"].startswith("2023-11-14 22:13:20")
    jobs = teller.ok("GetJobs", name="new", numResults=9)["jobs"]
    assert [job["jobID"] for job in jobs] == [first, second]


def test_hand_outs_that_came_to_nothing_are_counted_unless_told_otherwise(
    teller: Teller, clock: VirtualClock
) -> None:
    job_id = runqueued(teller)
    clock.pass_(3601)
    assert teller.get("foo")["data"] == {"retryAfterCount": 1}
    teller.ok("RequeueJobs", jobIDs=job_id)
    assert teller.get("foo")["data"] == {"retryAfterCount": 2}
    teller.ok("RequeueJobs", jobIDs=job_id, decrementFailures="true")
    assert teller.get("foo")["data"] == {"retryAfterCount": 2}
    teller.ok("RetryJob", jobID=job_id)
    assert teller.get("foo")["data"] == {}
