"""GetJob and GetJobs: which jobs, in which order, and what is told about them."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.desk.blocker import Reason
from stoker.desk.explain import explain
from stoker.kernel.hours import Maintenance
from stoker.kernel.job import Job
from tests.bedrock.teller import Teller
from tests.engines import SECOND, START, VirtualClock

NONE = "404 No job found"


def names(teller: Teller, pattern: str, count: int = 100, **headers: object) -> list[str]:
    """The names of the jobs that are handed out."""
    status, json = teller("GetJobs", name=pattern, numResults=count, **headers)
    return [] if status == NONE else [job["name"] for job in json["jobs"]]


def test_a_job_is_told_about_in_nine_fields(teller: Teller) -> None:
    teller.create("foo", data={"x": 1}, jobPriority=1000, repeat="finished, +1 day")
    assert teller.get("foo") == {
        "created": "2023-11-14 22:13:20",
        "data": {"x": 1},
        "jobID": 1,
        "lastRun": "",
        "name": "foo",
        "nextRun": "2023-11-14 22:13:20.000",
        "priority": 1000,
        "repeat": "FINISHED, +1 DAY",
        "retryAfter": "",
    }


def test_names_are_a_pattern_or_a_list_of_names(teller: Teller) -> None:
    for name in ("foo", "Foo", "fa", "f*", "a,b"):
        teller.create(name)
    assert names(teller, "f*,foo,nothing") == ["foo", "f*"]
    assert names(teller, "?o[aeiou]") == ["Foo"]
    assert names(teller, "*") == ["fa", "a,b"]


def test_the_greatest_priority_goes_first_then_the_earliest_run_then_age(
    teller: Teller, clock: VirtualClock
) -> None:
    teller.create("late", firstRun="2023-11-14 22:13:25")
    teller.create("early", firstRun="2023-11-14 22:13:21")
    teller.create("now")
    teller.create("now too")
    teller.create("low", jobPriority=0, firstRun="2001-01-01")
    teller.create("high", jobPriority=1000, firstRun="2023-11-14 22:13:26")
    clock.pass_(10)
    wanted = ["high", "now", "now too", "early", "late", "low"]
    assert names(teller, "*") == wanted


def test_who_works_here_is_seen_by_explain_while_it_has_a_job(teller: Teller, desk: Desk) -> None:
    held = teller.create("foo")
    job_id = teller.create("foo")
    assert explain(desk.store, int(job_id)).blockers[-1].reason is Reason.NO_WORKER
    teller.get("foo")
    (blocker,) = explain(desk.store, int(job_id)).blockers
    assert (blocker.reason, blocker.jobs) == (Reason.WORKERS_UNSEEN, (int(held),))


def test_a_job_that_is_not_due_is_not_there(teller: Teller, clock: VirtualClock) -> None:
    teller.create("foo", firstRun="2023-11-14 22:13:21")
    assert teller("GetJob", name="foo").status == NONE
    clock.pass_(0.999)
    assert teller("GetJob", name="foo").status == NONE
    clock.pass_(0.001)
    assert teller("GetJob", name="foo").status == "200 OK"


def test_no_job_is_handed_out_twice(teller: Teller) -> None:
    teller.create("foo")
    assert teller.state(teller.get("foo")["jobID"]) == "RUNNING"
    assert teller("GetJob", name="foo").status == NONE
    assert teller("GetJobs", name="foo", numResults=5).status == NONE


@pytest.mark.parametrize(("count", "given"), [(1, 1), (3, 3), (9, 4), (0, 1), (-5, 1), ("x", 1)])
def test_as_many_as_are_wanted_and_there(teller: Teller, count: int | str, given: int) -> None:
    for _ in range(4):
        teller.create("foo")
    assert len(teller.ok("GetJobs", name="foo", numResults=count)["jobs"]) == given


@pytest.mark.parametrize("priority", [0, 500, 1000])
def test_jobs_of_one_priority_can_be_asked_for(teller: Teller, priority: int) -> None:
    for name, given in (("a", 1000), ("b", 500), ("c", 0), ("d", 500), ("e", 0), ("f", 1000)):
        teller.create(name, jobPriority=given)
    found = {1000: ["a", "f"], 500: ["b", "d"], 0: ["c", "e"]}[priority]
    assert names(teller, "*", jobPriority=priority) == found
    assert names(teller, "*", jobPriority=priority) == []
    assert len(names(teller, "*")) == 4


def test_a_job_of_one_priority_runs_like_any_other(teller: Teller) -> None:
    teller.create("high", jobPriority=1000)
    job_id = teller.create("foo", retryAfter="+5 SECONDS")
    job = teller.get("*", jobPriority=500)
    assert (job["jobID"], teller.state(job_id), job["attempt"]) == (job_id, "RUNQUEUED", 1)
    teller.ok("FinishJob", jobID=job_id, token=job["token"])
    assert teller.state(job_id) is None


def test_jobs_of_other_doors_are_not_seen(teller: Teller) -> None:
    teller.desk.intake.enqueue(Job("mail"))
    assert teller("GetJob", name="*").status == NONE
    teller.desk.intake.enqueue(Job("bedrock:mail", "mail", payload=b"[1]"))
    assert teller.get("*")["data"] == [1]


def test_a_payload_that_is_no_json_spoils_no_answer(teller: Teller) -> None:
    teller.desk.intake.enqueue(Job("bedrock:mail", "mail", payload=b"{"))
    assert teller.get("*")["data"] is None


# -- mocked jobs ---------------------------------------------------------------------------


def test_mocked_jobs_are_seen_only_by_those_who_ask_for_them(teller: Teller) -> None:
    teller.create("a", mockRequest="true", data={"x": 1}, repeat="DAILY")
    teller.create("b")
    assert names(teller, "*") == ["b"]
    teller.create("b")
    assert names(teller, "*", getMockedJobs="") == ["a", "b"]
    assert teller.query(1)["data"] == {"x": 1, "mockRequest": True}
    assert teller.query(1)["repeat"] == ""


def test_a_child_is_mocked_if_its_parent_is(teller: Teller) -> None:
    teller.create("real")
    teller.create("mocked", mockRequest="1")
    real = teller.get("real")["jobID"]
    mocked = teller.get("mocked", mockRequest="x")["jobID"]
    first = teller.create("child", parentJobID=mocked)
    second = teller.create("child", parentJobID=real, mockRequest="true")
    assert teller.query(first)["data"] == {"mockRequest": True}
    assert teller.query(second)["data"] == {}


def test_a_mocked_job_can_be_finished_and_retried_before_it_ran(teller: Teller) -> None:
    first, second = teller.create("a", mockRequest="1"), teller.create("a", mockRequest="1")
    teller.ok("FinishJob", jobID=first)
    teller.ok("RetryJob", jobID=second, name="b", nextRun="2042-01-01")
    assert teller.state(first) is None
    after = teller.query(second)
    assert (after["name"], after["nextRun"]) == ("b", "2042-01-01 00:00:00")


def test_an_update_keeps_the_mark(teller: Teller) -> None:
    mocked, real = teller.create("a", mockRequest="1"), teller.create("a")
    teller.ok("UpdateJob", jobID=mocked, data={"x": 1})
    teller.ok("UpdateJob", jobID=real, data={"x": 1, "mockRequest": True})
    assert teller.query(mocked)["data"] == {"x": 1, "mockRequest": True}
    assert teller.query(real)["data"] == {"x": 1}


def test_a_closed_queue_hands_nothing_out(teller: Teller, desk: Desk, clock: VirtualClock) -> None:
    teller.create("foo")
    desk.control.adjust("bedrock:foo", maintenance=(Maintenance(start=0, end=START + SECOND),))
    assert teller("GetJob", name="foo").status == NONE
    assert teller("GetJobs", name="f*", numResults=5).status == NONE
    clock.pass_(1)
    assert teller("GetJob", name="foo").status == "200 OK"
