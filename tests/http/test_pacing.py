"""The first of a period, and the last before it is quiet, for callers over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.client import Api

JOB: dict[str, Any] = {"queue": "q", "unique_key": "k"}


def test_the_first_job_of_a_period_stands_for_the_others(api: Api) -> None:
    once = {**JOB, "once_per": "10m"}
    assert api.post("/v1/jobs", {**once, "payload": 1}).status == 201
    refused = api.post("/v1/jobs", {**once, "payload": 2})
    assert (refused.status, refused.json["existing_id"]) == (409, 1)
    assert api.post("/v1/jobs/cancel", {"ids": [1]}).status == 200
    kept = api.post("/v1/jobs", {**once, "payload": 3, "if_exists": "return"})
    assert (kept.status, kept.json) == (200, {"id": 1, "fresh": False})
    assert api.job(1)["payload"] == 1


def test_the_last_job_counts_and_is_put_off(api: Api) -> None:
    calm = {**JOB, "debounce": "10m", "at_most": 3600}
    placed = [api.post("/v1/jobs", {**calm, "payload": n}).json for n in (1, 2)]
    assert placed == [{"id": 1, "fresh": True}, {"id": 1, "fresh": False}]
    job = api.job(1)
    assert (job["payload"], job["due_at"] > job["created_at"]) == (2, True)


def test_a_request_that_is_sent_again_gets_the_same_answer(api: Api) -> None:
    for said in ({"once_per": "10m"}, {"debounce": "10m"}):
        (key,) = said
        body = {"queue": "q", "unique_key": key, **said}
        sent = [api.post("/v1/jobs", body, idempotency_key=key).json for _ in range(2)]
        assert sent[0]["id"] == sent[1]["id"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"once_per": "1m", "unique_key": None}, "needs a unique key"),
        ({"once_per": "1m", "debounce": "1m"}, "say one of them"),
        ({"at_most": "1m"}, "say both"),
        ({"debounce": "1m", "if_exists": "reject"}, "cannot be refused"),
        ({"debounce": "1m", "delay": 5}, "leave out the delay"),
        ({"once_per": "1m", "callback": "http://127.0.0.1/"}, "callback must be new"),
        ({"once_per": -1}, "once_per"),
    ],
)
def test_what_makes_no_sense_is_refused(api: Api, said: dict[str, Any], words: str) -> None:
    answer = api.post("/v1/jobs", {**JOB, **said})
    assert (answer.status, answer.json["code"]) == (400, "bad_input")
    assert words in str(answer.json)
