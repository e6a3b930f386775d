"""The routes of Jobber, of its source, and of Walrus."""

from __future__ import annotations

import uuid

import pytest

from stoker.desk import Desk
from stoker.kernel.job import State
from stoker.store import Filter
from tests.engines import VirtualClock
from tests.http.client import Api


def stored(desk: Desk, ref: str) -> bytes:
    """The payload of a job, byte for byte."""
    (job,) = desk.store.find(Filter(ref=ref))
    return job.payload


def test_a_job_is_queued_by_its_type_and_gets_a_uuid(api: Api, desk: Desk) -> None:
    body = b'{\n    "type": "job-type",\n    "payload": {"free": ["form", 1.50]}\n}'
    answer = api.post("/jobber/queue", body)
    assert answer.status == 201
    assert answer.headers["content-type"] == "application/json"
    assert answer.json.keys() == {"job-id"}
    assert uuid.UUID(answer.json["job-id"]).version == 4
    (job,) = api.take("job_queue_job-type")
    assert (job["ref"], job["name"]) == (answer.json["job-id"], "job-type")
    assert job["payload"] == {"free": ["form", 1.5]}
    assert stored(desk, answer.json["job-id"]) == b'{"free": ["form", 1.50]}'


def test_two_jobs_get_two_ids_and_are_served_in_order(api: Api) -> None:
    ids = [api.post("/jobber/queue", {"type": "t", "payload": n}).json["job-id"] for n in (1, 2, 3)]
    assert len(set(ids)) == 3
    assert [job["ref"] for job in api.take("job_queue_t", limit=3)] == ids


def test_each_type_has_workers_of_its_own(api: Api) -> None:
    api.post("/jobber/queue", {"type": "a"})
    assert api.take("job_queue_b") == []
    assert len(api.take("job_queue_a")) == 1


@pytest.mark.parametrize("payload", ["12345678901234567890123", "1e400", '"\\u00e9"', "[1,  2]"])
def test_a_payload_is_kept_byte_for_byte(api: Api, desk: Desk, payload: str) -> None:
    said = f'{{"payload": {payload}, "type": "t"}}'.encode()
    ref = api.post("/jobber/queue", said).json["job-id"]
    assert stored(desk, ref) == payload.encode()
    assert payload.encode() in api.get(f"/v1/jobs?ref={ref}").content


def test_what_may_be_left_out_or_is_not_known_does_no_harm(api: Api, desk: Desk) -> None:
    said = {"type": "  spaced \n", "extra": 1}
    answer = api.post("/jobber/queue", said, content_type="text/plain")
    assert stored(desk, answer.json["job-id"]) == b"null"
    assert [job["name"] for job in api.take("job_queue_spaced")] == ["spaced"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "type"),
        (b"[]", "object"),
        (b'"text"', "object"),
        (b"null", "object"),
        (b"{", "truncated"),
        (b'{"type": "t"} trailing', "trailing characters"),
        (b'{"payload": 1}', "type"),
        (b'{"type": 7}', "$.type"),
        (b'{"type": " \\t "}', "`type` must not be empty"),
        (b'{"type": "t", "payload": "\xff"}', "utf-8"),
        (b'{"type": "t", "payload": ' + b"[" * 100_000, "recursion"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong(plain: Api, body: bytes, said: str) -> None:
    answer = plain.post("/jobber/queue", body)
    assert answer.status == 400
    assert said in answer.json["error"]
    assert answer.json["detail"] == answer.json["error"]


def test_other_methods_and_routes_are_told_so(plain: Api) -> None:
    refused = plain.get("/jobber/queue")
    assert (refused.status, refused.headers["allow"]) == (405, "POST")
    assert plain.post("/jobber/nothing", {}).status == 404


def test_the_source_has_names_of_its_own(api: Api) -> None:
    answer = api.post("/jobs", {"jobType": "t", "payload": 1})
    assert (answer.status, [*answer.json]) == (201, ["jobId"])
    assert [job["ref"] for job in api.take("job_queue_t")] == [answer.json["jobId"]]


def test_a_spoilt_job_is_tried_again_and_stops_after_five_tries(
    api: Api, clock: VirtualClock
) -> None:
    api.post("/jobber/queue", {"type": "t"})
    states = []
    for _ in range(5):
        (job,) = api.take("job_queue_t")
        states.append(api.say(job, "fail", error="no").json["state"])
        clock.pass_(3600)
    assert states == ["QUEUED"] * 4 + ["FAILED"]
    assert [job["error"] for job in api.get("/v1/jobs?state=failed").json["jobs"]] == ["no"]


# -- Walrus --------------------------------------------------------------------------------


def test_walrus_runs_a_job_later(api: Api, clock: VirtualClock) -> None:
    said = {"job_type": "t", "payload": "text", "run_after_secs": 3}
    answer = api.post("/schedule/", said)
    assert (answer.status, [*answer.json]) == (200, ["job_id"])
    assert api.take("job_queue_t") == []
    clock.pass_(3)
    assert [job["payload"] for job in api.take("job_queue_t")] == ["text"]


def test_walrus_runs_a_job_at_once_by_default_and_knows_the_name_its_source_reads(
    api: Api, clock: VirtualClock
) -> None:
    api.post("/schedule/", {"job_type": "now"})
    api.post("/schedule/", {"job_type": "later", "RunAfterSecs": 60})
    assert [job["name"] for job in api.take("job_queue_*", limit=9)] == ["now"]


def test_walrus_runs_a_job_again_and_again(api: Api, clock: VirtualClock) -> None:
    api.post("/schedule/", {"job_type": "t", "every": "5m"})
    runs = []
    for _ in range(3):
        clock.pass_(300)
        (job,) = api.take("job_queue_t")
        runs.append(api.say(job, "finish").json["state"])
    assert runs == ["QUEUED"] * 3


def test_a_job_that_nobody_has_begun_can_be_changed_and_removed(api: Api) -> None:
    path = "/schedule/" + api.post("/schedule/", {"job_type": "t", "payload": "a"}).json["job_id"]
    assert api.ask("PUT", path, {"payload": "b"}).status == 200
    other = api.post("/schedule/", {"job_type": "t", "payload": "c"}).json["job_id"]
    assert api.ask("DELETE", f"/schedule/{other}").status == 200
    (job,) = api.take("job_queue_t", limit=9)
    assert job["payload"] == "b"
    for method in ("PUT", "DELETE"):
        refused = api.ask(method, path, {"payload": "d"} if method == "PUT" else None)
        assert (refused.status, "RUNNING" in refused.json["error"]) == (404, True)
        assert api.ask(method, f"/schedule/{other}", {"payload": "d"}).status == 404


def test_the_monitor_shows_types_and_workers(api: Api, desk: Desk) -> None:
    for kind in ("a", "a", "b"):
        api.post("/jobber/queue", {"type": kind})
    api.put("something else")
    api.take("job_queue_a")
    session = api.done("POST", "/v1/sessions", {"name": "w", "queues": ["job_queue_a"]})["session"]
    told = api.get("/monitor/queues/status").json
    counted = [(each["type"], each["waiting"], each["in_process"]) for each in told["queues"]]
    assert counted == [("a", 1, 1), ("b", 1, 0)]
    assert told["in_process_queue"] == 1
    assert [worker["session"] for worker in told["workers"]] == [session]
    assert desk.store.survey()[0].counts[State.RUNNING] == 1
