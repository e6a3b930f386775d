"""unique and overwrite: one job of a name, and what it takes over from those who ask again."""

from __future__ import annotations

import pytest

from tests.bedrock.teller import Teller


def test_a_unique_job_is_created_once(teller: Teller) -> None:
    first = teller.create("foo", unique="true")
    assert teller.create("foo", unique="true") == first
    assert teller.create("bar", unique="true") != first
    assert teller.create("Foo", unique="true") != first
    assert teller.create("foo") != first


def test_a_job_that_was_not_created_as_unique_counts_too_the_oldest_first(teller: Teller) -> None:
    first = teller.create("foo")
    teller.create("foo")
    assert teller.create("foo", unique="true") == first


@pytest.mark.parametrize("state", ["RUNNING", "FAILED", "CANCELLED", "QUEUED"])
def test_it_counts_in_every_state(teller: Teller, state: str) -> None:
    job_id = teller.create("foo", unique="true")
    if state == "CANCELLED":
        teller.ok("CancelJob", jobID=job_id)
    if state in ("RUNNING", "FAILED"):
        teller.get("foo")
    if state == "FAILED":
        teller.ok("FailJob", jobID=job_id)
    assert teller.state(job_id) == state
    assert teller.create("foo", unique="true", data={"new": 1}, jobPriority=1000) == job_id
    after = teller.query(job_id)
    assert (after["data"], after["priority"], after["state"]) == ({"new": 1}, 1000, state)


def test_a_finished_job_is_no_more(teller: Teller) -> None:
    job_id = teller.create("foo", unique="true")
    teller.get("foo")
    teller.ok("FinishJob", jobID=job_id)
    assert teller.create("foo", unique="true") == job_id + 1


def test_what_is_said_is_taken_over_and_what_is_not_stays(teller: Teller) -> None:
    job_id = teller.create("foo", unique="true", data={"a": 1, "b": {"c": 1}}, repeat="HOURLY")
    teller.create("foo", unique="true", jobPriority=750)
    teller.create("foo", unique="true", data={"b": {"d": 2}, "e": [3], "a": None})
    after = teller.query(job_id)
    assert after["data"] == {"b": {"c": 1, "d": 2}, "e": [3]}
    assert (after["priority"], after["repeat"]) == (750, "HOURLY")
    teller.create("foo", unique="true", repeat="daily")
    assert teller.query(job_id)["repeat"] == "DAILY"
    assert teller.query(job_id)["data"] == after["data"]


def test_without_overwrite_nothing_is_taken_over(teller: Teller) -> None:
    job_id = teller.create("foo", unique="true", data={"a": 1})
    news = {"data": {"a": 2}, "jobPriority": 0, "repeat": "DAILY"}
    assert teller.create("foo", unique="true", overwrite="false", **news) == job_id
    assert (teller.query(job_id)["data"], teller.query(job_id)["priority"]) == ({"a": 1}, 500)
    assert teller.create("foo", unique="true", overwrite="", **news) == job_id
    assert (teller.query(job_id)["data"], teller.query(job_id)["priority"]) == ({"a": 2}, 0)


def test_a_child_belongs_to_its_parent(teller: Teller) -> None:
    parent, other = teller.begun("parent"), teller.begun("other")
    child = teller.create("child", unique="true", parentJobID=parent)
    assert teller.create("child", unique="true", parentJobID=parent) == child
    status = (
        "404 Trying to create a child that already exists, but it is tied to a different parent"
    )
    assert teller("CreateJob", name="child", unique="true").status == status
    assert teller("CreateJob", name="child", unique="true", parentJobID=other).status == status
    alone = teller.create("alone", unique="true")
    assert teller.create("alone", unique="true", parentJobID=parent) == alone


def test_the_same_name_twice_in_one_call_is_one_job(teller: Teller) -> None:
    old = teller.create("old", unique="true", data={"a": 1})
    jobs = [
        {"name": "new", "unique": True},
        {"name": "old", "unique": True, "data": {"b": 2}},
        {"name": "new", "unique": True, "data": {"c": 3}},
    ]
    first, second, third = teller.ok("CreateJobs", jobs=jobs)["jobIDs"]
    assert (second, first, third) == (old, third, first)
    assert teller.query(old)["data"] == {"a": 1, "b": 2}


def test_a_name_that_was_given_up_is_free(teller: Teller) -> None:
    job_id = teller.create("foo", unique="true")
    teller.get("foo")
    teller.ok("RetryJob", jobID=job_id, name="bar")
    assert teller.create("foo", unique="true") != job_id
    assert teller.create("bar", unique="true") == job_id


def test_mocked_jobs_have_names_of_their_own(teller: Teller) -> None:
    real = teller.create("foo", unique="true")
    mocked = teller.create("foo", unique="true", mockRequest="true")
    assert mocked != real
    assert teller.create("foo", unique="true", mockRequest="true") == mocked
    assert teller.create("foo", unique="true") == real
