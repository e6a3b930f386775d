"""Idempotency-Key: a write that is sent twice is done once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.desk.notebook import Notebook
from stoker.store import Filter
from tests.engines import VirtualClock
from tests.http.client import Answer, Api

KEY = {"Idempotency-Key": "order 7"}


def twice(api: Api, method: str, path: str, said: object = None) -> tuple[Answer, Answer]:
    first, second = (api.ask(method, path, said, headers=KEY) for _ in range(2))
    return first, second


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/jobs", {"queue": "q", "payload": 1}),
        ("/v1/jobs/batch", {"jobs": [{"queue": "q"}, {"queue": "q"}]}),
        ("/jobber/queue", {"type": "t"}),
        ("/jobs", {"jobType": "t"}),
        ("/schedule/", {"job_type": "t"}),
        ("/v1/sessions", {}),
    ],
)
def test_a_request_that_is_sent_again_is_answered_the_same(api: Api, path: str, said: Any) -> None:
    first, second = twice(api, "POST", path, said)
    before = api.get("/v1/stats").json
    third = api.ask("POST", path, said, headers=KEY)
    assert first.status == second.status == third.status < 300
    assert first.content == second.content == third.content
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert api.get("/v1/stats").json["jobs"] == before["jobs"]


def test_a_claim_that_is_sent_again_gives_the_same_jobs(api: Api) -> None:
    api.put()
    api.put()
    first, second = twice(api, "POST", "/v1/claims", {"queues": ["q"]})
    assert [job["lease"] for job in first.json["jobs"]] == [
        job["lease"] for job in second.json["jobs"]
    ]
    assert api.get("/v1/stats").json["jobs"]["RUNNING"] == 1


def test_a_finish_that_is_sent_again_is_still_a_success(api: Api) -> None:
    api.put()
    (job,) = api.take()
    words = {"lease": job["lease"], "result": 1}
    first, second = twice(api, "POST", f"/v1/jobs/{job['id']}/finish", words)
    assert first.json == second.json == {"id": job["id"], "state": "FINISHED"}


def test_a_key_belongs_to_one_request(api: Api) -> None:
    api.ask("POST", "/v1/jobs", {"queue": "q"}, headers=KEY)
    for path, said in (("/v1/jobs", {"queue": "r"}), ("/jobber/queue", {"type": "t"})):
        refused = api.ask("POST", path, said, headers=KEY)
        assert (refused.status, refused.json["code"]) == (422, "key_reused")
    assert api.get("/v1/stats").json["jobs"]["QUEUED"] == 1


def test_a_request_that_was_refused_may_be_sent_again(api: Api) -> None:
    said = {"queue": "q", "unique_key": "u"}
    api.done("POST", "/v1/jobs", said)
    assert api.ask("POST", "/v1/jobs", said, headers=KEY).status == 409
    api.done("DELETE", "/v1/jobs/1")
    assert api.ask("POST", "/v1/jobs", said, headers=KEY).status == 201


def test_two_at_once_do_it_once(api: Api) -> None:
    answers: list[Answer] = []

    def send() -> None:
        answers.append(api.ask("POST", "/v1/jobs", {"queue": "q"}, headers=KEY))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert {answer.status for answer in answers} <= {201, 409}
    assert {answer.json["code"] for answer in answers if answer.status == 409} <= {"key_in_use"}
    assert api.get("/v1/stats").json["jobs"]["QUEUED"] == 1


def test_a_key_is_forgotten_after_a_day(api: Api, desk: Desk, clock: VirtualClock) -> None:
    said = {"queue": "q"}
    api.ask("POST", "/v1/jobs", said, headers=KEY)
    api.done("DELETE", "/v1/jobs/1")
    clock.pass_(24 * 3600)
    assert api.ask("POST", "/v1/jobs", said, headers=KEY).json["id"] == 2


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/jobs", {"queue": "q"}),
        ("/v1/jobs/batch", {"jobs": [{"queue": "q"}, {"queue": "q"}]}),
        ("/jobber/queue", {"type": "t"}),
    ],
)
def test_a_server_that_dies_before_it_can_tell_makes_no_job_twice(
    api: Api, desk: Desk, clock: VirtualClock, path: str, said: Any
) -> None:
    first = api.ask("POST", path, said, headers=KEY)
    # As if the answer had never been kept: the note is gone, the jobs are there.
    for key in list(desk.store.notes()):
        Notebook(desk.clerk).write(key, None)
    again = api.ask("POST", path, said, headers=KEY)
    assert (again.status, again.content) == (first.status, first.content)
    assert len(desk.store.find(Filter())) == len(said.get("jobs", [1]))


@pytest.mark.parametrize("key", ["", " ", "x" * 256])
def test_a_key_has_a_decent_length(plain: Api, key: str) -> None:
    answer = plain.ask("POST", "/v1/jobs", {"queue": "q"}, headers={"Idempotency-Key": key})
    assert (answer.status, "Idempotency-Key" in answer.json["detail"]) == (400, True)
