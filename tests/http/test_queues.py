"""Queues, schedules and figures over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from stoker import Throttle
from stoker.desk import Desk
from tests.engines import VirtualClock
from tests.http.client import Api


def test_queues_are_shown_with_their_counts_and_settings(api: Api) -> None:
    api.put("a")
    api.put("b/c")
    assert [queue["name"] for queue in api.get("/v1/queues").json["queues"]] == ["a", "b/c"]
    for path in ("/v1/queues/b/c", "/v1/queues/b%2Fc"):
        queue = api.get(path).json
        assert (queue["name"], queue["counts"]["QUEUED"], queue["used"]) == ("b/c", 1, 0.0)
        assert queue["settings"]["retention"]["finished"] == 3600.0
    assert api.get("/v1/queues/nothing").status == 404


def test_settings_change_one_by_one_and_hold_at_once(api: Api) -> None:
    path = "/v1/queues/mail"
    first = api.done("PATCH", path, {"capacity": 2, "keys": {"ann": 0.5}, "order": "time-rank"})
    assert first["settings"]["capacity"] == 2.0
    then = api.done("PATCH", path, {"paused": True, "retention": {"failed": None}})["settings"]
    assert (then["capacity"], then["keys"], then["order"]) == (2.0, {"ann": 0.5}, "time-rank")
    assert then["retention"] == {"finished": 3600.0, "failed": None, "cancelled": 86400.0}
    api.put("mail")
    assert api.take("mail") == []
    assert (
        api.done("PATCH", path, {"paused": False, "capacity": None})["settings"]["capacity"] is None
    )
    assert len(api.take("mail")) == 1


POLICIES: dict[str, Any] = {
    "capacity": 10.0,
    "tasks": {"resize": 2.0},
    "shares": {"east": 40.0},
    "lend": True,
    "rate": "100 per minute",
    "key_rate": "5 per second, burst 20",
    "key_rates": {"ann": "10 per second"},
    "task_rates": {"resize": "1 per 10s, fixed"},
    "within": "world",
    "fair": True,
    "turns": {"gold": 3.0},
    "ageing": 600.0,
    "windows": "mon-fri 08:00-18:00 in Europe/Berlin",
    "maintenance": ["sun 02:00-04:00, drain 30m", "2027-03-28 02:00 to 2027-03-28 04:00"],
    "throttled": True,
}


def test_policies_are_set_and_shown_alike(api: Api) -> None:
    shown = api.done("PATCH", "/v1/queues/api", {**POLICIES, "ageing": "10m", "rate": "100/m"})
    assert {name: shown["settings"][name] for name in POLICIES} == POLICIES
    assert api.get("/v1/queues/api").json == shown
    gone = dict.fromkeys(("rate", "key_rate", "within", "ageing", "capacity", "windows"))
    gone |= {"shares": {}, "lend": False, "fair": False, "maintenance": [], "throttled": False}
    rest = api.done("PATCH", "/v1/queues/api", gone)["settings"]
    assert {name: rest[name] for name in gone} == gone
    assert rest["tasks"] == {"resize": 2.0}


def test_a_queue_can_be_given_exactly_these_settings(api: Api) -> None:
    api.done("PATCH", "/v1/queues/api", POLICIES)
    only = api.done("PUT", "/v1/queues/api", {"rate": "2 per minute", "retention": {"failed": 60}})
    plain = api.done("PUT", "/v1/queues/plain", {})["settings"]
    assert only["settings"] == {
        **plain,
        "rate": "2 per minute",
        "retention": {**plain["retention"], "failed": 60.0},
    }


@pytest.mark.parametrize(
    ("shut", "reason"),
    [
        ({"maintenance": ["2000-01-01 00:00 to 9000-01-01 00:00"]}, "maintenance"),
        ({"throttled": True}, "no_throttler"),
    ],
)
def test_a_queue_that_is_closed_or_has_a_throttler_gives_nothing_over_http(
    api: Api, shut: dict[str, Any], reason: str
) -> None:
    job = api.put("api")
    api.done("PUT", "/v1/queues/api", shut)
    assert api.take("api") == []
    told = api.get(f"/v1/jobs/{job}/explain").json
    assert reason in [each["reason"] for each in told["blockers"]]
    api.done("PUT", "/v1/queues/api", {})
    assert [each["id"] for each in api.take("api")] == [job]


def test_what_is_known_of_a_throttler_is_told_with_its_queue(api: Api, desk: Desk) -> None:
    path = "/v1/queues/api"
    assert api.done("PUT", path, {})["throttler"] is None
    assert api.done("PUT", path, {"throttled": True})["throttler"] == {"error": None, "state": None}

    def fail(throttle: Throttle) -> None:
        raise KeyError("east")

    api.put("api")
    for throttler in (_keep_count, fail):
        asked = desk.throttling.ask("api", throttler, room=1, owner="me")
        if asked.ruling is not None:
            desk.throttling.carry_out(asked.ruling)
    assert api.get(path).json["throttler"] == {"error": "KeyError: 'east'", "state": {"asked": 1}}
    assert api.done("PATCH", path, {"throttled": False})["throttler"] is None


def _keep_count(throttle: Throttle) -> None:
    throttle.state = {"asked": 1}


def test_a_rate_holds_over_http_and_is_explained(api: Api) -> None:
    api.done("PUT", "/v1/queues/api", {"rate": "1 per minute, fixed"})
    first, second = api.put("api"), api.put("api")
    assert [job["id"] for job in api.take("api", limit=5)] == [first]
    told = api.get(f"/v1/jobs/{second}/explain").json
    (rate,) = [each for each in told["blockers"] if each["reason"] == "queue_rate"]
    assert rate["text"] == "the queue api has used up its 1 per minute, fixed"
    assert rate["until"] is not None


@pytest.mark.parametrize(
    "change",
    [
        {"capacity": 0},
        {"order": "random"},
        {"pauesd": True},
        {"rate": "often"},
        {"rate": 5},
        {"key_rates": {"ann": None}},
        {"shares": {"east": 40}},
        {"capacity": 1, "shares": {"east": 101}},
        {"ageing": 0},
        {"ageing": "soon"},
        {"windows": "at night"},
        {"maintenance": "02:00-04:00"},
        {"maintenance": ["00:00-24:00"]},
        {"within": "q"},
        {"turns": {"gold": 0}},
        {"turns": {"": 1}},
        {"keys": {"": 1}},
        {"key_rates": {"": "1/s"}},
        {"within": ""},
        {"windows": ""},
        {"rate": ""},
        {"capacity": 10**9 + 1},
        {"rate": "10000000000/s"},
        {"key_rate": "1/d, burst 1000000"},
        {"ageing": "366000d"},
        {"retention": {"failed": "366000d"}},
    ],
    ids=str,
)
def test_settings_that_cannot_be_meant_are_refused(plain: Api, change: dict[str, Any]) -> None:
    for method in ("PATCH", "PUT"):
        answer = plain.ask(method, "/v1/queues/q", change)
        assert (answer.status, answer.json["status"]) == (400, 400)
        assert answer.json["detail"]
    assert plain.get("/v1/queues").json["queues"] == []


@pytest.mark.parametrize("name", ["%ed%a0%80", "%ff", "a%c3", "%ef%bf%bd%ff"])
def test_a_name_that_is_not_utf_8_is_refused(plain: Api, name: str) -> None:
    for answer in (
        plain.ask("PATCH", f"/v1/queues/{name}", {"capacity": 1}),
        plain.get(f"/v1/queues/{name}"),
        plain.post(f"/v1/replies/{name}", 1),
        plain.get(f"/v1/schedules/{name}"),
    ):
        assert (answer.status, answer.json["code"]) == (400, "bad_input")
        assert "UTF-8" in answer.json["detail"]
    assert plain.get("/v1/queues").json["queues"] == []


def test_the_sign_for_what_cannot_be_read_may_be_meant(plain: Api) -> None:
    plain.done("PATCH", "/v1/queues/%ef%bf%bd", {"capacity": 1})
    assert plain.get("/v1/queues/%ef%bf%bd").json["name"] == "\ufffd"


def test_a_queue_can_be_purged(api: Api) -> None:
    for _ in range(3):
        api.put()
    (job,) = api.take()
    api.put("other")
    assert api.done("DELETE", "/v1/queues/q?state=failed") == {"deleted": 0}
    assert api.done("DELETE", "/v1/queues/q") == {"deleted": 2}
    assert [each["id"] for each in api.get("/v1/jobs").json["jobs"]] == [job["id"], 4]
    assert api.ask("DELETE", "/v1/queues/nothing").status == 404


def test_all_is_told_in_numbers(api: Api) -> None:
    api.put()
    api.put(delay=60)
    api.done("POST", "/v1/sessions", {})
    told = api.get("/v1/stats").json
    assert (told["queues"], told["jobs"]["QUEUED"], told["jobs"]["FAILED"]) == (1, 2, 0)
    assert told["workers"] == {"alive": 1, "dead": 0}
    assert told["next_due"] == api.job(2)["due_at"]


def test_the_backlog_is_told_in_seconds(api: Api, clock: VirtualClock) -> None:
    api.put("slow")
    (job,) = api.take("slow")
    clock.pass_(20)
    api.say(job, "finish")
    for _ in range(3):
        api.put("slow")
    api.put("slow", delay=3600)
    clock.pass_(5)
    load = api.get("/v1/backlog?queue=sl*&within=10").json
    assert load == {
        "due": 3,
        "running": 0,
        "run_seconds": 20.0,
        "late_seconds": 5.0,
        "work_seconds": 60.0,
        "slots_wanted": 3.0,
    }
    assert api.get("/v1/backlog?within=120").json["slots_wanted"] == 0.5
    assert api.get("/v1/backlog?queue=other").json["slots_wanted"] == 0.0
    assert api.get("/v1/backlog?within=0").status == 400


# -- schedules -----------------------------------------------------------------------------


def test_a_schedule_is_shown_paused_resumed_and_run(api: Api, clock: VirtualClock) -> None:
    api.put(name="beat", unique_key="schedule:beat", policy={"repeat": "every 5m"})
    (schedule,) = api.get("/v1/schedules").json["schedules"]
    assert (schedule["name"], schedule["repeat"], schedule["paused"]) == ("beat", "every 5m", False)
    assert api.done("PATCH", "/v1/schedules/beat", {"paused": True})["next"] is None
    clock.pass_(600)
    assert api.take() == []
    assert api.done("PATCH", "/v1/schedules/beat", {"paused": False})["next"] is not None
    placed = api.post("/v1/runs", {"schedule": "beat"})
    assert placed.status == 201
    assert [job["id"] for job in api.take()] == [placed.json["id"]]
    for answer in (
        api.get("/v1/schedules/nothing"),
        api.ask("PATCH", "/v1/schedules/nothing", {"paused": True}),
        api.post("/v1/runs", {"schedule": "nothing"}),
    ):
        assert answer.status == 404


def test_a_repeat_can_be_previewed(api: Api, desk: Desk) -> None:
    runs = api.get("/v1/preview?repeat=every%201h&count=3").json["runs"]
    assert len(runs) == 3
    assert runs == sorted(runs)
    assert api.get("/v1/preview?repeat=sometimes").status == 400
    assert api.get("/v1/preview").status == 400
    assert desk.store.survey() == []
