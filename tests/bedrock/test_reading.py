"""What is refused and with which words, and how parameters are read: all before any store.

These run in memory alone; what they lead to is seen on every engine elsewhere.
"""

from __future__ import annotations

import itertools

import pytest

from stoker.desk import Desk
from stoker.store.memory import MemoryStore
from tests.bedrock.teller import Teller
from tests.bedrock.test_getting import names
from tests.bedrock.test_repeat import at
from tests.engines import VirtualClock

NONE = "404 No job found"
NO_JOB = "404 No job with this jobID"
OK = "200 OK"


@pytest.fixture
def teller(clock: VirtualClock) -> Teller:
    return Teller(Desk(MemoryStore(clock), dice=lambda: 0.0, token=itertools.count(1).__next__))


def running(teller: Teller) -> int:
    return teller.begun("foo")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, "402 Missing name"),
        ({"name": ""}, "402 Missing name"),
        ({"name": "x" * 256}, "402 Malformed name"),
        ({"name": "é" * 128}, "402 Malformed name"),
        ({"name": "x", "jobPriority": "7"}, "402 Invalid priority value"),
        ({"name": "x", "jobPriority": "high"}, "402 Invalid priority value"),
        ({"name": "x", "jobPriority": ""}, "402 Invalid priority value"),
        ({"name": "x", "priority": "1"}, "402 Invalid priority value"),
        ({"name": "x", "data": ""}, "402 Data is not a valid JSON Object"),
        ({"name": "x", "data": "[1]"}, "402 Data is not a valid JSON Object"),
        ({"name": "x", "data": '{"a":1'}, "402 Data is not a valid JSON Object"),
        ({"name": "x", "data": '{"a":}'}, "402 Data is not a valid JSON Object"),
        ({"name": "x", "data": '{"a":' + "[" * 5000}, "402 Data is not a valid JSON Object"),
        ({"name": "x", "retryAfter": "soon"}, "402 Malformed retryAfter"),
        ({"name": "x", "retryAfter": "+1 HOUR, +1 DAY"}, "402 Malformed retryAfter"),
        ({"name": "x", "retryAfter": "START OF HOUR"}, "402 Malformed retryAfter"),
        ({"name": "x", "repeat": "sometimes"}, "402 Malformed repeat"),
        ({"name": "x", "repeat": "FINISHED"}, "402 Malformed repeat"),
        ({"name": "x", "repeat": "FINISHED, + 1 HOUR"}, "402 Malformed repeat"),
        ({"name": "x", "repeat": "every 5m"}, "402 Malformed repeat"),
        ({"name": "x", "firstRun": "tomorrow"}, "402 Malformed firstRun"),
        ({"name": "x", "firstRun": "2042-13-01"}, "402 Malformed firstRun"),
        ({"name": "x", "firstRun": "2042-01-01 1:00"}, "402 Malformed firstRun"),
        ({"name": "x", "jobTimeout": "0"}, "402 Malformed jobTimeout"),
        ({"name": "x", "jobTimeout": "-5"}, "402 Malformed jobTimeout"),
        ({"name": "x", "jobTimeout": "9" * 30}, "402 Malformed jobTimeout"),
        ({"name": "x", "jobTimeout": "5", "onTimeout": "shrug"}, "402 Malformed onTimeout"),
        ({"name": "x", "parentJobID": "999"}, "404 parentJobID does not exist"),
        (
            {"name": "x", "retryAfter": "+1 HOUR", "repeat": "DAILY"},
            "402 Cannot combine retryAfter with repeat",
        ),
        (
            {"name": "x", "retryAfter": "+1 HOUR", "unique": "true"},
            "402 Cannot combine retryAfter with unique",
        ),
        (
            {"name": "x", "retryAfter": "+1 HOUR", "jobTimeout": "5"},
            "402 Cannot combine retryAfter with jobTimeout",
        ),
    ],
)
def test_what_cannot_be_a_job_is_refused_and_leaves_nothing(
    teller: Teller, headers: dict[str, object], status: str
) -> None:
    assert teller("CreateJob", **headers) == (status, None)
    assert teller("GetJob", name="*").status == "404 No job found"


def test_a_name_may_not_hold_a_nul_or_half_a_character(teller: Teller) -> None:
    for name in (r"a\u0000b", r"a\ud800b"):
        assert teller.say(f"CreateJob\nname: {name}\n\n").status == "402 Malformed name"


@pytest.mark.parametrize(
    "headers",
    [
        {"retryAfter": ""},
        {"repeat": ""},
        {"firstRun": ""},
        {"parentJobID": ""},
        {"parentJobID": "0"},
        {"parentJobID": "none"},
        {"unique": "false"},
        {"unique": "TRUE"},
        {"created": "2001-01-01", "state": "RUNNING", "nextRun": "2042-01-01", "idempotent": "1"},
    ],
)
def test_what_is_empty_or_unknown_changes_nothing(
    teller: Teller, headers: dict[str, object]
) -> None:
    plain, other = teller.create("foo"), teller.create("foo", **headers)
    assert plain != other
    expected = {**teller.query(plain), "jobID": other}
    assert teller.query(other) == expected


@pytest.mark.parametrize("priority", [0, 250, 500, 750, 850, 1000])
def test_there_are_six_priorities(teller: Teller, priority: int) -> None:
    assert teller.query(teller.create(jobPriority=priority))["priority"] == priority
    assert teller.query(teller.create(priority=priority))["priority"] == priority
    both = teller.create(jobPriority=priority, priority="anything")
    assert teller.query(both)["priority"] == priority


@pytest.mark.parametrize(
    ("first_run", "shown"),
    [
        ("2042-01-01", "2042-01-01 00:00:00"),
        ("2042-01-01 12:30", "2042-01-01 12:30:00"),
        ("2042-01-01 12:30:15", "2042-01-01 12:30:15"),
        ("2042-01-01T12:30:15Z", "2042-01-01 12:30:15"),
        ("2042-01-01 12:30:15.250", "2042-01-01 12:30:15.250"),
    ],
)
def test_a_first_run_is_a_time_in_utc(
    teller: Teller, clock: VirtualClock, first_run: str, shown: str
) -> None:
    job_id = teller.create(firstRun=first_run)
    assert teller.query(job_id)["nextRun"] == shown
    assert teller("GetJob", name="foo").status == "404 No job found"
    clock.pass_(20 * 365 * 86_400)
    assert teller.get()["jobID"] == job_id


@pytest.mark.parametrize(
    ("jobs", "status"),
    [
        (None, "401 Invalid JSON"),
        ("", "401 Invalid JSON"),
        ("{}", "401 Invalid JSON"),
        ("[1]", "401 Invalid JSON"),
        ("[{}]", "401 Invalid JSON"),
        ('[{"name":"a"}] x', "401 Invalid JSON"),
        ('[{"name":"a"}', "401 Invalid JSON"),
        ('[{"title":"a"}]', "402 Missing name"),
        ('[{"name":null}]', "402 Missing name"),
        ('[{"name":""}]', "402 Missing name"),
        ('[{"name":"a"},{"name":"b","repeat":"never"}]', "402 Malformed repeat"),
        ('[{"name":"a"},{"name":"b","data":7}]', "402 Data is not a valid JSON Object"),
        ('[{"name":"a"},{"name":"b","parentJobID":99}]', "404 parentJobID does not exist"),
    ],
)
def test_one_bad_job_and_none_is_created(teller: Teller, jobs: str | None, status: str) -> None:
    headers = {} if jobs is None else {"jobs": jobs}
    assert teller("CreateJobs", **headers) == (status, None)
    assert teller("GetJob", name="*").status == "404 No job found"


@pytest.mark.parametrize(
    ("verb", "headers", "status"),
    [
        ("GetJob", {}, "402 Missing name"),
        ("GetJob", {"name": "x" * 12_751}, "402 Malformed name"),
        ("GetJob", {"name": "x" * 300 + "*"}, "402 Malformed name"),
        ("GetJob", {"name": "x" * 300}, NONE),
        ("GetJob", {"name": ",".join(["x" * 250] * 50)}, NONE),
        (
            "GetJob",
            {"name": "x", "numResults": "1"},
            "402 Cannot use numResults with GetJob; try GetJobs",
        ),
        ("GetJobs", {"numResults": "1"}, "402 Missing name"),
        ("GetJobs", {"name": "x"}, "402 Missing numResults"),
        ("GetJobs", {"name": "x", "numResults": "1"}, NONE),
        ("GetJob", {"name": "x", "jobPriority": "1"}, "402 Invalid priority value"),
        ("GetJob", {"name": "x", "timeout": "0"}, "555 Timeout"),
        ("GetJob", {"name": "x", "timeout": "-1"}, "555 Timeout"),
        ("GetJob", {"name": "x", "processTimeout": "0"}, "555 Timeout"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    teller: Teller, verb: str, headers: dict[str, object], status: str
) -> None:
    assert teller(verb, **headers) == (status, None)


@pytest.mark.parametrize("verb", ["FinishJob", "RetryJob"])
def test_data_say_whether_they_are_mocked(teller: Teller, verb: str) -> None:
    teller.create("a", mockRequest="1")
    teller.create("b")
    mocked = teller.get("a", mockRequest="1")["jobID"]
    real = teller.get("b")["jobID"]
    mismatch = "500 Mock Mismatch"
    assert teller(verb, jobID=mocked, data={}).status == mismatch
    assert teller(verb, jobID=real, data={"mockRequest": True}).status == mismatch
    teller.ok(verb, jobID=mocked, data={"mockRequest": True})
    teller.ok(verb, jobID=real, data={"mockRequest": None})


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("foo", ["foo"]),
        ("f*", ["foo", "fa", "f*"]),
        ("?oo", ["foo", "Foo"]),
        ("[Ff]oo", ["foo", "Foo"]),
        ("[^f]*", ["Foo", "a,b"]),
        ("f[*]", ["f*"]),
        ("*", ["foo", "Foo", "fa", "f*", "a,b"]),
        ("foo,fa", ["foo", "fa"]),
        (" foo,  fa ,", ["foo"]),
        ("f*,foo,nothing", ["foo", "f*"]),
        ("a,b", []),
        ("a?b", ["a,b"]),
        ("foo,", []),
        ("[oo", []),
        ("x*", []),
    ],
)
def test_names_are_a_pattern_or_a_list(teller: Teller, pattern: str, matching: list[str]) -> None:
    for name in ("foo", "Foo", "fa", "f*", "a,b"):
        teller.create(name)
    assert names(teller, pattern) == matching


@pytest.mark.parametrize(
    "verb",
    ["QueryJob", "UpdateJob", "FinishJob", "RetryJob", "FailJob", "CancelJob", "DeleteJob"],
)
def test_a_job_is_named_by_a_whole_number(teller: Teller, verb: str) -> None:
    for job_id in (None, ""):
        headers = {} if job_id is None else {"jobID": job_id}
        assert teller(verb, **headers).status == "402 Missing jobID"
    for job_id in (
        "abc",
        "1x",
        "1.0",
        "+1",
        "007",
        "-0",
        "9223372036854775808",
        "9" * 99,
        "\u0661",
    ):
        assert teller(verb, jobID=job_id, data={}).status == "402 Malformed jobID"
    for job_id in ("0", "-1", "99", "9223372036854775807"):
        assert teller(verb, jobID=job_id, data={}).status == NO_JOB


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"delay": "-1"}, "402 Must specify a non-negative delay when retrying"),
        ({"delay": "123456789"}, "402 Malformed delay"),
        ({"nextRun": "later"}, "402 Malformed nextRun"),
        ({"jobPriority": "3"}, "402 Invalid priority value"),
        ({"data": "{"}, "402 Data is not a valid JSON Object"),
        ({"name": "x" * 256}, "402 Malformed name"),
    ],
)
def test_a_bad_retry_changes_nothing(
    teller: Teller, headers: dict[str, object], status: str
) -> None:
    job_id = running(teller)
    assert teller("RetryJob", jobID=job_id, **headers).status == status
    assert teller.state(job_id) == "RUNNING"


@pytest.mark.parametrize("verb", ["FinishJob", "FailJob", "UpdateJob"])
def test_data_that_are_no_object_change_nothing(teller: Teller, verb: str) -> None:
    job_id = running(teller)
    assert teller(verb, jobID=job_id, data="[]").status == "402 Data is not a valid JSON Object"
    assert (teller.state(job_id), teller.query(job_id)["data"]) == ("RUNNING", {})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, "402 Missing data"),
        ({"data": ""}, "402 Missing data"),
        ({"data": {"x": "y" * 2**20}}, "402 Malformed data"),
        ({"data": {}, "repeat": "x"}, "402 Malformed repeat"),
        ({"data": {}, "jobPriority": "x"}, "402 Invalid priority value"),
        ({"data": {}, "nextRun": "x"}, "402 Malformed nextRun"),
    ],
)
def test_a_bad_update_changes_nothing(
    teller: Teller, headers: dict[str, object], status: str
) -> None:
    job_id = teller.create("foo", data={"a": 1})
    before = teller.query(job_id)
    assert teller("UpdateJob", jobID=job_id, **headers).status == status
    assert teller.query(job_id) == before


def test_ping_and_status_and_what_nobody_knows(teller: Teller) -> None:
    assert teller("Ping") == (OK, None)
    assert teller("ping / HTTP/1.1") == (OK, None)
    status, json = teller("Status")
    assert (status, json["state"], json["isLeader"]) == (OK, "LEADING", True)
    assert teller("BoilWater") == ("430 Unrecognized command", None)


@pytest.mark.parametrize("ids", [None, "", "99", "nobody"])
def test_requeueing_nothing_is_fine(teller: Teller, ids: str | None) -> None:
    headers = {} if ids is None else {"jobIDs": ids}
    assert teller("RequeueJobs", **headers) == (OK, None)


@pytest.mark.parametrize(
    ("repeat", "next_run"),
    [
        ("SCHEDULED, +1 HOUR", "2024-05-17 14:00:00"),
        ("STARTED, +1 HOUR", "2024-05-17 14:15:00"),
        ("FINISHED, +1 HOUR", "2024-05-17 14:45:00"),
        ("finished,+30 minutes", "2024-05-17 14:15:00"),
        ("FINISHED, +90 SECONDS", "2024-05-17 13:46:30"),
        ("FINISHED, +1 DAY, START OF DAY, +4 HOURS", "2024-05-18 04:00:00"),
        ("FINISHED, +1 DAY, WEEKDAY 1, START OF DAY, +6 HOURS", "2024-05-20 06:00:00"),
        ("FINISHED, START OF HOUR, +1 HOUR", "2024-05-17 14:00:00"),
        ("FINISHED, +1 MONTH, START OF MONTH", "2024-06-01 00:00:00"),
        ("FINISHED, +1 YEAR, START OF YEAR", "2025-01-01 00:00:00"),
        ("HOURLY", "2024-05-17 14:45:00"),
        ("DAILY", "2024-05-18 13:45:00"),
        ("weekly", "2024-05-24 13:45:00"),
    ],
)
def test_a_job_repeats_from_its_base(
    teller: Teller, clock: VirtualClock, repeat: str, next_run: str
) -> None:
    at(clock, "2024-05-17 09:00:00")
    job_id = teller.create("foo", repeat=repeat, firstRun="2024-05-17 13:00:00")
    at(clock, "2024-05-17 13:15:00")
    teller.get("foo")
    at(clock, "2024-05-17 13:45:00")
    teller.ok("FinishJob", jobID=job_id, data={"value": 3})
    after = teller.query(job_id)
    assert (after["state"], after["nextRun"]) == ("QUEUED", next_run)
    assert teller("GetJob", name="foo").status == NONE
    at(clock, next_run)
    job = teller.get("foo")
    assert (job["data"], job["lastRun"]) == ({"value": 3}, "2024-05-17 13:15:00")
