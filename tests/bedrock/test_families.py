"""Parents and children."""

from __future__ import annotations

import pytest

from stoker.watch import run_chores
from tests.bedrock.teller import Teller
from tests.engines import VirtualClock

NONE = "404 No job found"


def family(teller: Teller, children: int = 2, **headers: object) -> tuple[int, list[int]]:
    """A parent that waits for its children, which may start."""
    parent = teller.begun("parent", **headers)
    born = [teller.create(f"child {n}", parentJobID=parent) for n in range(children)]
    teller.ok("FinishJob", jobID=parent)
    return parent, born


def test_children_of_a_running_parent_wait_until_it_has_finished(teller: Teller) -> None:
    parent = teller.begun("parent")
    child = teller.create("child", parentJobID=parent)
    assert teller.state(child) == "PAUSED"
    assert teller("GetJob", name="child").status == NONE
    teller.ok("FinishJob", jobID=parent, data={"plan": "b"})
    assert (teller.state(parent), teller.state(child)) == ("PAUSED", "QUEUED")
    job = teller.get("child")
    assert (job["parentJobID"], job["parentData"]) == (parent, {"plan": "b"})
    assert teller("GetJob", name="parent").status == NONE


def test_a_running_child_makes_siblings_that_may_start(teller: Teller) -> None:
    parent, (child,) = family(teller, 1)
    teller.get("child 0")
    sibling = teller.create("sibling", parentJobID=parent)
    assert teller.state(sibling) == "QUEUED"
    teller.ok("FinishJob", jobID=child)
    assert teller.state(parent) == "PAUSED"
    teller.get("sibling")
    teller.ok("FinishJob", jobID=sibling)
    assert teller.state(parent) == "QUEUED"


@pytest.mark.parametrize("state", ["QUEUED", "FAILED", "CANCELLED"])
def test_no_other_job_can_have_children(teller: Teller, state: str) -> None:
    parent = teller.create("parent")
    if state == "FAILED":
        teller.get("parent")
        teller.ok("FailJob", jobID=parent)
    if state == "CANCELLED":
        teller.ok("CancelJob", jobID=parent)
    assert teller("CreateJob", name="child", parentJobID=parent).status == (
        "405 Can only create child job when parent is RUNNING, RUNQUEUED or PAUSED"
    )


def test_there_are_no_grandchildren(teller: Teller) -> None:
    _, (child, other) = family(teller)
    teller.get("child 0")
    answer = teller("CreateJob", name="grandchild", parentJobID=child)
    assert answer.status == "405 Cannot create grandchildren"
    wrong_state = "405 Can only create child job when parent is RUNNING, RUNQUEUED or PAUSED"
    assert teller("CreateJob", name="grandchild", parentJobID=other).status == wrong_state


def test_the_last_child_resumes_its_parent_which_hears_of_all(teller: Teller) -> None:
    parent, (one, two) = family(teller)
    teller.get("child 0")
    teller.ok("FinishJob", jobID=one, data={"sum": 1})
    assert teller.state(parent) == "PAUSED"
    assert teller.state(one) == "FINISHED"
    teller.ok("CancelJob", jobID=two)
    job = teller.get("parent")
    assert job["finishedChildJobs"] == [{"data": {"sum": 1}, "jobID": one}]
    assert job["cancelledChildJobs"] == [{"data": {}, "jobID": two}]
    teller.ok("FinishJob", jobID=parent)
    assert [teller.state(each) for each in (parent, one, two)] == [None, None, None]


@pytest.mark.parametrize("end", ["FailJob", "CancelJob", "DeleteJob", "FinishJob"])
def test_however_the_last_child_ends_its_parent_goes_on(teller: Teller, end: str) -> None:
    parent, (child,) = family(teller, 1)
    if end in ("FailJob", "FinishJob"):
        teller.get("child 0")
    teller.ok(end, jobID=child)
    assert teller.state(parent) == "QUEUED"
    teller.get("parent")
    teller.ok("FinishJob", jobID=parent)
    assert teller.state(parent) is None


def test_a_failed_child_stays_when_its_parent_is_done(teller: Teller) -> None:
    parent, (child,) = family(teller, 1)
    teller.get("child 0")
    teller.ok("FailJob", jobID=child)
    assert "finishedChildJobs" not in teller.get("parent")
    teller.ok("FinishJob", jobID=parent)
    assert (teller.state(parent), teller.state(child)) == (None, "FAILED")


def test_a_parent_may_have_children_round_after_round(teller: Teller) -> None:
    parent, (first,) = family(teller, 1)
    teller.get("child 0")
    teller.ok("FinishJob", jobID=first)
    assert [each["jobID"] for each in teller.get("parent")["finishedChildJobs"]] == [first]
    second = teller.create("child 1", parentJobID=parent)
    teller.ok("FinishJob", jobID=parent)
    assert (teller.state(first), teller.state(second)) == (None, "QUEUED")
    teller.get("child 1")
    teller.ok("FinishJob", jobID=second)
    assert [each["jobID"] for each in teller.get("parent")["finishedChildJobs"]] == [second]
    teller.ok("FinishJob", jobID=parent)
    assert teller.state(parent) is None


def test_a_parent_that_repeats_does_so_after_its_children(
    teller: Teller, clock: VirtualClock
) -> None:
    parent, (child,) = family(teller, 1, repeat="FINISHED, +1 HOUR")
    teller.get("child 0")
    teller.ok("FinishJob", jobID=child)
    teller.get("parent")
    teller.ok("FinishJob", jobID=parent)
    assert (teller.state(parent), teller.state(child)) == ("QUEUED", None)
    clock.pass_(3600)
    assert "finishedChildJobs" not in teller.get("parent")


def test_a_child_that_repeats_keeps_its_parent_waiting(teller: Teller, clock: VirtualClock) -> None:
    parent = teller.begun("parent")
    child = teller.create("child", parentJobID=parent, repeat="FINISHED, +1 HOUR")
    teller.ok("FinishJob", jobID=parent)
    teller.get("child")
    teller.ok("FinishJob", jobID=child)
    assert (teller.state(parent), teller.state(child)) == ("PAUSED", "QUEUED")
    clock.pass_(3600)
    teller.get("child")
    teller.ok("FinishJob", jobID=child, ignoreRepeat="true")
    assert (teller.state(parent), teller.state(child)) == ("QUEUED", "FINISHED")


def test_a_parent_that_is_retried_leaves_its_children_waiting(teller: Teller) -> None:
    parent = teller.begun("parent")
    child = teller.create("child", parentJobID=parent)
    teller.ok("RetryJob", jobID=parent)
    assert (teller.state(parent), teller.state(child)) == ("QUEUED", "PAUSED")
    teller.get("parent")
    teller.ok("FinishJob", jobID=parent)
    assert teller.state(child) == "QUEUED"


def test_a_retry_clears_ended_children_too(teller: Teller) -> None:
    parent, (child,) = family(teller, 1)
    teller.ok("CancelJob", jobID=child)
    teller.get("parent")
    teller.ok("RetryJob", jobID=parent)
    assert teller.state(child) is None


def test_children_of_a_parent_that_fails_are_cancelled(teller: Teller) -> None:
    parent = teller.begun("parent")
    child = teller.create("child", parentJobID=parent)
    teller.ok("FailJob", jobID=parent)
    assert teller.state(child) == "CANCELLED"


def test_a_job_with_children_cannot_be_cancelled(teller: Teller) -> None:
    parent, _ = family(teller)
    status = "404 Invalid jobID - Cannot cancel a job with children"
    assert teller("CancelJob", jobID=parent).status == status
    assert teller.state(parent) == "PAUSED"


@pytest.mark.parametrize("verb", ["FinishJob", "RetryJob"])
def test_a_child_that_was_set_free_too_early_waits_for_its_parent(
    teller: Teller, verb: str
) -> None:
    parent = teller.begun("parent")
    child = teller.create("child", parentJobID=parent)
    teller.ok("RequeueJobs", jobIDs=child)
    teller.get("child")
    status = "405 Can only retry/finish child job when parent is PAUSED"
    assert teller(verb, jobID=child).status == status
    teller.ok("FinishJob", jobID=parent)
    teller.ok(verb, jobID=child)


def test_families_may_have_retry_after(teller: Teller, clock: VirtualClock) -> None:
    parent = teller.begun("parent", retryAfter="+1 MINUTE")
    child = teller.create("child", parentJobID=parent, retryAfter="+1 MINUTE")
    clock.pass_(60)
    assert teller.get("parent")["jobID"] == parent
    assert teller.state(child) == "PAUSED"
    teller.ok("FinishJob", jobID=parent)
    teller.get("child")
    clock.pass_(60)
    assert teller.get("child")["attempt"] == 2
    teller.ok("FinishJob", jobID=child)
    assert teller.get("parent")["jobID"] == parent


def test_a_hundred_children(teller: Teller) -> None:
    parent = teller.begun("parent")
    jobs = [{"name": "child", "parentJobID": parent} for _ in range(100)]
    teller.ok("CreateJobs", jobs=jobs)
    teller.ok("FinishJob", jobID=parent)
    children = teller.ok("GetJobs", name="child", numResults=100)["jobs"]
    for child in children[:-1]:
        teller.ok("FinishJob", jobID=child["jobID"])
    assert teller.state(parent) == "PAUSED"
    teller.ok("FinishJob", jobID=children[-1]["jobID"])
    assert len(teller.get("parent")["finishedChildJobs"]) == 100


def test_ended_children_are_kept_for_a_parent_that_lives(
    teller: Teller, clock: VirtualClock
) -> None:
    _, (one, two) = family(teller)
    teller.get("child 0")
    teller.ok("FinishJob", jobID=one, data={"sum": 1})
    clock.pass_(30 * 86_400)
    run_chores(teller.desk.clerk, "me")
    teller.get("child 1")
    teller.ok("FinishJob", jobID=two)
    assert len(teller.get("parent")["finishedChildJobs"]) == 2
