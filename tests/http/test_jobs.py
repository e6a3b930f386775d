"""Jobs over HTTP: putting them in, looking at them, looking after them."""

from __future__ import annotations

import base64
import threading
from typing import Any

import msgspec
import pytest

from stoker.desk import Desk
from stoker.doors.cli.words import iso
from stoker.kernel.job import Job
from stoker.kernel.queue import QueueSettings, Retention
from tests.engines import VirtualClock
from tests.http.client import Api


def test_every_fact_that_can_be_said_is_kept(api: Api) -> None:
    said = {
        "queue": "mail",
        "name": "welcome",
        "payload": {"to": "ann"},
        "rank": -3,
        "at": "2030-01-02T03:04:05+01:00",
        "weight": 0.5,
        "key": "tenant",
        "unique_key": "welcome:ann",
        "ref": "order 7",
        "meta": "from the shop",
        "policy": {
            "timeout": "30s",
            "on_lost": "fail",
            "crash_limit": None,
            "retry": "fixed 10s x3",
            "windows": "mon-fri 05:00-07:00",
            "retention": {"finished": 60, "failed": None},
        },
    }
    answer = api.post("/v1/jobs", said)
    assert (answer.status, answer.json) == (201, {"id": 1, "fresh": True})
    assert answer.headers["location"] == "/v1/jobs/1"
    job = api.job(1)
    plain = ("queue", "name", "payload", "rank", "weight", "key", "unique_key", "ref", "meta")
    assert {name: job[name] for name in plain} == {name: said[name] for name in plain}
    assert job["scheduled_at"] == "2030-01-02T02:04:05.000000Z"
    assert job["due_at"] == "2030-01-02T05:00:00.000000Z"
    assert job["policy"] == {
        "timeout": 30.0,
        "on_lost": "fail",
        "crash_limit": None,
        "retry": "fixed 10s x3",
        "repeat": None,
        "windows": "mon-fri 05:00-07:00",
        "retention": {"finished": 60.0, "failed": None, "cancelled": 86400.0},
    }


def test_what_is_left_out_is_as_usual(api: Api, desk: Desk) -> None:
    api.put("q")
    there = desk.store.get([1])[1]
    usual = desk.store.get([desk.intake.enqueue(Job("q")).id])[2]
    assert msgspec.structs.replace(there, id=2) == usual


def test_a_delay_puts_a_job_off(api: Api, clock: VirtualClock) -> None:
    api.put(delay="1m30s")
    clock.pass_(89)
    assert api.take() == []
    clock.pass_(1)
    assert len(api.take()) == 1


@pytest.mark.parametrize(
    ("said", "stored", "shown"),
    [
        ({"payload": [1, 2.0]}, b"[1,2.0]", [1, 2.0]),
        ({"payload": "raw\n", "format": "text"}, b"raw\n", "raw\n"),
        ({"payload": "/+8=", "format": "bytes"}, b"\xff\xef", "/+8="),
    ],
)
def test_a_payload_is_json_text_or_bytes(
    api: Api, desk: Desk, said: dict[str, Any], stored: bytes, shown: object
) -> None:
    job_id = api.put(**said)
    assert desk.store.get([job_id])[job_id].payload == stored
    assert api.job(job_id)["payload"] == shown
    assert api.job(job_id)["format"] == said.get("format", "json")


def test_a_payload_that_is_no_json_is_shown_all_the_same(api: Api, desk: Desk) -> None:
    ids = [desk.intake.enqueue(Job("q", payload=data)).id for data in (b"{no", b"\xff\xfe")]
    shown = [api.job(job_id)["payload"] for job_id in ids]
    assert shown == ["{no", base64.b64encode(b"\xff\xfe").decode()]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "queue"),
        ({"queue": "q", "nmae": "x"}, "nmae"),
        ({"queue": "q", "at": "tomorrow"}, "2026-07-01T09:00Z"),
        ({"queue": "q", "at": "2030-01-01T00:00"}, "has no zone"),
        ({"queue": "q", "at": "2030-01-01T00:00Z", "delay": 1}, "not both"),
        ({"queue": "q", "delay": "soon"}, "30s"),
        ({"queue": "q", "delay": -1}, "delay"),
        ({"queue": "q", "weight": 0.0001}, "thousandth"),
        ({"queue": "q", "rank": 10**40}, "rank must be"),
        ({"queue": "q", "payload": 1, "format": "text"}, "a JSON string"),
        ({"queue": "q", "payload": "!", "format": "bytes"}, "base64"),
        ({"queue": "q", "policy": {"retry": "sometimes"}}, "unknown retry policy"),
        ({"queue": "q", "policy": {"retry": {"kind": "fixed", "every": -1}}}, "retry"),
        ({"queue": "q", "policy": {"repeat": "sometimes"}}, "every 5m"),
        ({"queue": "q", "policy": {"timeout": 0}}, "timeout must be"),
        ({"queue": "q", "policy": {"crash_limit": 2**31}}, "crash_limit"),
        ({"queue": "q", "policy": {"timeout": "1001d"}, "weight": 10**10}, "weight"),
        ({"queue": "q", "delay": "2000000d"}, "longer than 1,000 years"),
        ({"queue": "q", "if_exists": "maybe"}, "if_exists"),
        ({"queue": ""}, "queue cannot be empty"),
        ({"queue": "q", "name": ""}, "$.name"),
        ({"queue": "q", "key": ""}, "key cannot be empty"),
        ({"queue": "q", "unique_key": ""}, "unique_key cannot be empty"),
        ({"queue": "q", "ref": ""}, "ref cannot be empty"),
        ({"queue": "q", "at": ""}, "cannot read the time ''"),
        ({"queue": "q", "delay": ""}, "cannot read the duration ''"),
        ({"queue": "q", "policy": {"windows": ""}}, "no times given"),
        ({"queue": "q", "policy": {"repeat": ""}}, "cannot read the repeat"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_advice(
    plain: Api, said: dict[str, Any], why: str
) -> None:
    answer = plain.post("/v1/jobs", said)
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert why in answer.json["detail"]
    assert answer.json["code"] == "bad_input"
    assert answer.json["advice"]
    assert plain.get("/v1/stats").json["jobs"]["QUEUED"] == 0


def test_a_job_that_is_there_already_is_refused_returned_or_updated(api: Api) -> None:
    first = {"queue": "q", "unique_key": "k", "payload": 1}
    assert api.post("/v1/jobs", first).status == 201
    refused = api.post("/v1/jobs", first)
    assert (refused.status, refused.json["code"], refused.json["existing_id"]) == (
        409,
        "duplicate",
        1,
    )
    kept = api.post("/v1/jobs", {**first, "payload": 2, "if_exists": "return"})
    assert (kept.status, kept.json) == (200, {"id": 1, "fresh": False})
    assert api.job(1)["payload"] == 1
    assert api.post("/v1/jobs", {**first, "payload": 3, "if_exists": "update"}).status == 200
    assert api.job(1)["payload"] == 3


def test_many_jobs_are_taken_in_all_or_none_and_in_order(api: Api) -> None:
    jobs = [{"queue": "q", "payload": n} for n in range(5)]
    placed = api.done("POST", "/v1/jobs/batch", {"jobs": jobs})["jobs"]
    assert placed == [{"id": n, "fresh": True} for n in range(1, 6)]
    twins = [{"queue": "q"}, {"queue": "q", "unique_key": "u"}, {"queue": "q", "unique_key": "u"}]
    assert api.post("/v1/jobs/batch", {"jobs": twins}).status == 409
    assert api.post("/v1/jobs/batch", {"jobs": [*jobs, {"queue": "q", "rank": "x"}]}).status == 400
    assert api.get("/v1/stats").json["jobs"]["QUEUED"] == 5
    again = api.done("POST", "/v1/jobs/batch", {"jobs": twins, "if_exists": "return"})["jobs"]
    assert [each["fresh"] for each in again] == [True, True, False]
    assert api.done("POST", "/v1/jobs/batch", {"jobs": []}) == {"jobs": []}


# -- looking -------------------------------------------------------------------------------


def test_jobs_are_listed_by_their_facts(api: Api) -> None:
    api.put("a", name="x", key="k", ref="r", unique_key="u")
    api.put("b", name="x", policy={"repeat": "every 5m"})
    api.take("a")
    found = {
        query: [job["id"] for job in api.get(f"/v1/jobs?{query}").json["jobs"]]
        for query in (
            *("", "queue=a", "name=x", "key=k", "ref=r", "unique_key=u", "repeating=true"),
            *("state=queued", "state=running&state=FAILED", "state=queued,running", "newest=true"),
        )
    }
    assert found == {
        "": [1, 2],
        "queue=a": [1],
        "name=x": [1, 2],
        "key=k": [1],
        "ref=r": [1],
        "unique_key=u": [1],
        "repeating=true": [2],
        "state=queued": [2],
        "state=running&state=FAILED": [1],
        "state=queued,running": [1, 2],
        "newest=true": [2, 1],
    }


@pytest.mark.parametrize("order", ["", "&newest=true"])
def test_a_cursor_leads_from_page_to_page(api: Api, order: str) -> None:
    api.done("POST", "/v1/jobs/batch", {"jobs": [{"queue": "q"}] * 7})
    seen, cursor = [], ""
    while True:
        page = api.get(f"/v1/jobs?limit=3{order}{cursor}").json
        seen.append([job["id"] for job in page["jobs"]])
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    flat = [job_id for page in seen for job_id in page]
    assert [len(page) for page in seen] == [3, 3, 1]
    assert sorted(flat) == list(range(1, 8))
    assert flat == sorted(flat, reverse=bool(order))


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("sate=queued", "sate"),
        ("state=lost", "there is no state 'lost'"),
        ("limit=0", "limit"),
        ("limit=many", "limit"),
        ("limit=1&limit=2", "`limit` can be said once only"),
        ("cursor=x", "cursor"),
        ("session=99999999999999999999", "session"),
        ("session=9999999999999999999", "too large"),
        ("queue=%ff", "utf-8"),
        ("queue=", "queue cannot be empty"),
        ("key=", "key cannot be empty"),
        ("state=", "there is no state ''"),
    ],
)
def test_a_query_that_cannot_be_meant_is_refused(plain: Api, query: str, why: str) -> None:
    answer = plain.get(f"/v1/jobs?{query}")
    assert (answer.status, why in answer.json["detail"]) == (400, True), answer.json


@pytest.mark.parametrize("job_id", ["7", "0", "9223372036854775807", "9" * 40, "9" * 5000])
def test_a_job_that_there_is_not_is_not_found(api: Api, job_id: str) -> None:
    for path in (f"/v1/jobs/{job_id}", f"/v1/jobs/{job_id}/explain"):
        assert api.get(path).json["code"] == "not_found"
    assert api.ask("DELETE", f"/v1/jobs/{job_id}").status == 404


def test_no_list_and_no_look_shows_a_lease(api: Api) -> None:
    api.put()
    (job,) = api.take()
    assert job["lease"].encode() not in api.get("/v1/jobs").content + api.get("/v1/jobs/1").content


def test_one_can_wait_for_the_end_of_a_job(api: Api) -> None:
    job_id = api.put()
    (job,) = api.take()
    ended: list[Any] = []
    waiting = threading.Thread(target=lambda: ended.append(api.get(f"/v1/jobs/{job_id}?wait=30s")))
    waiting.start()
    api.say(job, "finish", result={"sum": 3})
    waiting.join(30)
    assert (ended[0].json["state"], ended[0].json["result"]) == ("FINISHED", {"sum": 3})
    assert api.get(f"/v1/jobs/{job_id}?wait=30s").json["state"] == "FINISHED"


def test_whoever_waits_in_vain_is_shown_the_job_as_it_is(api: Api) -> None:
    assert api.get(f"/v1/jobs/{api.put()}?wait=50ms").json["state"] == "QUEUED"


def test_why_a_job_does_not_run_is_explained(api: Api) -> None:
    job_id = api.put(delay=60)
    told = api.get(f"/v1/jobs/{job_id}/explain").json
    reasons = [blocker["reason"] for blocker in told["blockers"]]
    assert (told["state"], reasons) == ("QUEUED", ["not_due", "no_worker"])
    assert told["blockers"][0]["until"] == api.job(job_id)["due_at"]


def test_who_works_over_http_without_a_session_is_not_said_to_be_nobody(api: Api) -> None:
    held, job_id = api.put(), api.put()
    (job,) = api.take()
    (blocker,) = api.get(f"/v1/jobs/{job_id}/explain").json["blockers"]
    assert (blocker["reason"], blocker["jobs"]) == ("workers_unseen", [held])
    assert job["id"] == held


# -- looking after them --------------------------------------------------------------------


def test_a_job_can_be_edited(api: Api, clock: VirtualClock) -> None:
    job_id = api.put(payload=1)
    change = {"queue": "r", "name": "n", "payload": "x", "format": "text", "rank": 5, "delay": 60}
    change |= {"weight": 2, "key": "k", "unique_key": "u", "meta": "m", "policy": {"timeout": 5}}
    job = api.done("PATCH", f"/v1/jobs/{job_id}", change)
    assert {name: job[name] for name in change.keys() - {"delay", "policy"}} == {
        name: change[name] for name in change.keys() - {"delay", "policy"}
    }
    assert job["policy"]["timeout"] == 5.0
    assert job["due_at"] > api.job(job_id)["created_at"]
    assert api.job(job_id) == job
    assert api.ask("PATCH", f"/v1/jobs/{job_id}", {"format": "text"}).status == 400


def test_a_schedule_with_another_repeat_and_time_goes_on_from_there(
    api: Api, clock: VirtualClock
) -> None:
    job_id = api.put(policy={"repeat": "every 7d"})
    clock.pass_(60)
    wish = {"policy": {"repeat": "every 1h"}, "delay": 3600}
    api.done("PATCH", f"/v1/jobs/{job_id}", wish)
    clock.pass_(3600)
    (job,) = api.take()
    api.say(job, "finish")
    assert api.job(job_id)["due_at"] == iso(clock() + 3_600_000_000)


def test_an_edit_with_if_match_meets_the_job_that_was_seen_or_nothing(api: Api) -> None:
    job_id = api.put(payload=1)
    path = f"/v1/jobs/{job_id}"
    seen = api.get(path).headers["etag"]
    done = api.ask("PATCH", path, {"payload": 2}, headers={"If-Match": seen})
    assert (done.status, done.headers["etag"] == seen) == (200, False)
    late = api.ask("PATCH", path, {"payload": 3}, headers={"If-Match": seen})
    assert (late.status, late.json["code"]) == (412, "changed")
    for tags in (f'"77", {done.headers["etag"]}', "*"):
        assert api.ask("PATCH", path, {"payload": 4}, headers={"If-Match": tags}).status in (200,)
        done = api.get(path)
    for tags in ('W/"1"', "nonsense", '"x"', f'"{"9" * 5000}"'):
        assert api.ask("PATCH", path, {"payload": 5}, headers={"If-Match": tags}).status == 412
    assert api.job(job_id)["payload"] == 4


def test_the_place_of_a_running_job_cannot_be_edited(api: Api) -> None:
    job_id = api.put()
    api.take()
    refused = api.ask("PATCH", f"/v1/jobs/{job_id}", {"rank": 1})
    assert (refused.status, refused.json["code"]) == (409, "illegal_move")


@pytest.mark.parametrize("fact", ["queue", "name", "key", "unique_key", "at", "delay"])
def test_nothing_is_no_news_of_a_job(plain: Api, fact: str) -> None:
    job_id = plain.put(name="n", key="k")
    before = plain.job(job_id)
    assert plain.ask("PATCH", f"/v1/jobs/{job_id}", {fact: ""}).status == 400
    assert plain.job(job_id) == before


def test_the_latest_moments_can_be_shown(plain: Api) -> None:
    policy = {"timeout": "365000d", "retention": {"finished": "365000d"}}
    late = plain.put(policy={"repeat": "every 365000d"}, at="9998-12-31T00:00Z")
    ids = [plain.put(policy=policy) for _ in range(2)]
    first, _ = plain.take(limit=2, visibility="365000d")
    assert plain.say(first, "finish").status == 200
    jobs = plain.get("/v1/jobs").json["jobs"]
    assert [job["id"] for job in jobs] == [late, *ids]
    assert plain.get("/v1/stats").status == 200


def test_a_job_is_cancelled_run_afresh_and_deleted(api: Api) -> None:
    job_id = api.put()
    path = f"/v1/jobs/{job_id}"
    assert api.done("POST", f"{path}/cancel")["state"] == "CANCELLED"
    assert api.post(f"{path}/cancel").json["code"] == "illegal_move"
    assert api.done("POST", f"{path}/retry")["state"] == "QUEUED"
    (job,) = api.take()
    assert api.done("POST", f"{path}/cancel")["cancel_requested"] is True
    assert api.ask("DELETE", path).status == 409
    assert api.say(job, "release").json["state"] == "CANCELLED"
    assert api.ask("DELETE", path).status == 204
    assert api.get(path).status == 404


def test_a_cancelled_job_that_is_not_kept_is_told_to_be_cancelled(api: Api, desk: Desk) -> None:
    desk.control.configure("q", QueueSettings(retention=Retention(cancelled=0)))
    job_id = api.put()
    assert api.done("POST", f"/v1/jobs/{job_id}/cancel")["state"] == "CANCELLED"
    assert api.get(f"/v1/jobs/{job_id}").status == 404


def test_many_jobs_are_cancelled_run_afresh_and_deleted_each_on_its_own(api: Api) -> None:
    ids = [api.put() for _ in range(3)]
    told = api.done("POST", "/v1/jobs/cancel", {"ids": [*ids[:2], 99]})["jobs"]
    assert [each["state"] for each in told] == ["CANCELLED", "CANCELLED", None]
    assert told[2]["error"] == "not_found"
    again = api.done("POST", "/v1/jobs/retry", {"ids": ids})["jobs"]
    assert [each["error"] for each in again] == [None, None, "illegal_move"]
    api.done("POST", "/v1/jobs/delete", {"ids": ids})
    assert api.get("/v1/jobs").json["jobs"] == []
