"""CreateJob and CreateJobs: parameters, defaults and refusals."""

from __future__ import annotations

import json

import pytest

from tests.bedrock.teller import Teller

NOW = "2023-11-14 22:13:20"


def test_a_job_needs_only_a_name(teller: Teller) -> None:
    first, second = teller.create("foo"), teller.create("foo")
    assert second == first + 1
    assert teller.query(first) == {
        "created": NOW,
        "data": {},
        "jobID": first,
        "lastRun": "",
        "name": "foo",
        "nextRun": f"{NOW}.000",
        "priority": 500,
        "repeat": "",
        "retryAfter": "",
        "state": "QUEUED",
    }


@pytest.mark.parametrize("name", ["a b/c?d=e", "grün 木", "x" * 255, "*", "with, comma", "{}"])
def test_a_name_is_any_text(teller: Teller, name: str) -> None:
    assert teller.query(teller.create(name))["name"] == name


@pytest.mark.parametrize(
    "data",
    [
        '{ "b" : 1.50, "a" : 12345678901234567890 }',
        r'{"path":"a\\b","quote":"\"","slash":"\/","e":"\u00e9"}',
        '{"nested":{"deep":[1,{"x":null}]}}',
    ],
)
def test_data_come_back_as_they_were_written(teller: Teller, data: str) -> None:
    teller.create("foo", data=data)
    (job,) = teller.desk.store.get([1]).values()
    assert job.payload == data.encode()
    assert teller.get()["data"] == json.loads(data)


@pytest.mark.parametrize("first_run", ["1970-01-01", "1969-07-20 20:17:40", "2023-11-14 22:13:20"])
def test_a_first_run_that_has_passed_is_due_at_once(teller: Teller, first_run: str) -> None:
    job_id = teller.create(firstRun=first_run)
    assert teller.get()["jobID"] == job_id


# -- CreateJobs ----------------------------------------------------------------------------


def test_many_jobs_are_created_in_order(teller: Teller) -> None:
    jobs = [{"name": "a"}, {"name": "b", "jobPriority": 1000}, {"NAME": "c", "data": {"x": 1}}]
    assert teller.ok("CreateJobs", jobs=jobs) == {"jobIDs": [1, 2, 3]}
    assert [teller.query(i)["name"] for i in (1, 2, 3)] == ["a", "b", "c"]
    assert teller.query(2)["priority"] == 1000
    assert teller.query(3)["data"] == {"x": 1}


def test_no_jobs_are_no_jobs(teller: Teller) -> None:
    assert teller.ok("CreateJobs", jobs=[]) == {"jobIDs": []}


def test_values_may_be_json_or_text(teller: Teller) -> None:
    text = {"name": "a", "jobPriority": "750", "unique": "true", "data": '{"x":"y"}'}
    json = {"name": "b", "jobPriority": 750, "unique": True, "data": {"x": "y"}, "repeat": None}
    assert teller.ok("CreateJobs", jobs=[text, json]) == {"jobIDs": [1, 2]}
    first, second = teller.query(1), teller.query(2)
    assert first == {**second, "name": "a", "jobID": 1}
    assert teller.ok("CreateJobs", jobs=[text, json]) == {"jobIDs": [1, 2]}


def test_children_of_many_parents_and_jobs_without_one_come_in_one_call(teller: Teller) -> None:
    one, two = teller.begun("one"), teller.begun("two")
    jobs = [
        {"name": "a", "parentJobID": two},
        {"name": "b"},
        {"name": "c", "parentJobID": one},
        {"name": "d", "parentJobID": two},
    ]
    ids = teller.ok("CreateJobs", jobs=jobs)["jobIDs"]
    assert [teller.query(i)["name"] for i in ids] == ["a", "b", "c", "d"]
    assert [teller.state(i) for i in ids] == ["PAUSED", "QUEUED", "PAUSED", "PAUSED"]
    teller.ok("FinishJob", jobID=two)
    assert [teller.state(i) for i in ids] == ["QUEUED", "QUEUED", "PAUSED", "QUEUED"]
