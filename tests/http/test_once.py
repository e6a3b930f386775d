"""Idempotency-Key: a write that is sent twice is done once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import msgspec
import pytest

from stoker.desk import Desk
from stoker.desk.notebook import Notebook
from stoker.doors.http.once import Kept
from stoker.errors import StoreUnavailable
from stoker.kernel.job import Job
from stoker.store import Filter
from stoker.store.redis import RedisStore
from tests.engines import VirtualClock
from tests.http.client import Answer, Api, opened
from tests.servers import valkey

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


NEW = [
    ("/v1/jobs", {"queue": "q"}),
    ("/v1/jobs/batch", {"jobs": [{"queue": "q"}, {"queue": "q", "ref": "r"}]}),
    ("/jobber/queue", {"type": "t"}),
    ("/schedule/", {"job_type": "t"}),
]


@pytest.mark.parametrize(("path", "said"), [each for each in NEW if "batch" not in each[0]])
def test_a_key_that_was_forgotten_makes_a_new_job_though_the_old_one_is_left(
    api: Api, desk: Desk, clock: VirtualClock, path: str, said: Any
) -> None:
    for night in range(1, 4):
        api.ask("POST", path, said, headers=KEY)
        assert len(desk.store.find(Filter())) == night
        clock.pass_(24 * 3600)
    for another in ({"queue": "other"}, {"type": "other"}, {"job_type": "other"}):
        if another.keys() == said.keys():
            assert api.ask("POST", path, another, headers=KEY).status < 300
    assert "other" in desk.store.find(Filter(newest_first=True))[0].queue


def dies_before_it_can_tell(desk: Desk, clock: VirtualClock) -> None:
    """As if the servers that have done something had never come to note their answers."""
    for note in desk.store.notes().values():
        kept = msgspec.msgpack.decode(note.value, type=Kept)
        pending = Kept(kept.fingerprint, kept.mark, served_until=clock.now + 120_000_000)
        Notebook(desk.clerk).write(note.key, msgspec.msgpack.encode(pending))


@pytest.mark.parametrize(("path", "said"), NEW)
def test_a_server_that_dies_before_it_can_tell_makes_no_job_twice(
    api: Api, desk: Desk, clock: VirtualClock, path: str, said: Any
) -> None:
    first = api.ask("POST", path, said, headers=KEY)
    dies_before_it_can_tell(desk, clock)
    assert api.ask("POST", path, said, headers=KEY).json["code"] == "key_in_use"
    clock.pass_(120)
    again = api.ask("POST", path, said, headers=KEY)
    assert (again.status, again.content) == (first.status, first.content)
    assert len(desk.store.find(Filter())) == len(said.get("jobs", [1]))


def test_neither_does_it_make_children_twice(api: Api, desk: Desk, clock: VirtualClock) -> None:
    api.put()
    (job,) = api.take(visibility="1h")
    path, said = f"/v1/jobs/{job['id']}/spawn", {"lease": job["lease"]}
    wish = {**said, "jobs": [{"queue": "c"}, {"queue": "c", "ref": "mine"}]}
    first = api.ask("POST", path, wish, headers=KEY)
    dies_before_it_can_tell(desk, clock)
    clock.pass_(120)
    again = api.ask("POST", path, wish, headers=KEY)
    assert (again.status, again.content) == (first.status, first.content)
    assert first.json["ids"] == [child.id for child in desk.store.find(Filter(queue="c"))]
    assert desk.store.get([job["id"]])[job["id"]].open_children == 2


def test_children_with_a_key_live_with_their_parent_where_there_are_partitions(
    clock: VirtualClock,
) -> None:
    server = valkey.default_server()
    with (
        valkey.prefix(server) as prefix,
        closing(RedisStore(server.url(prefix, partitions=8), clock=clock)) as store,
        opened(Desk(store)) as api,
    ):
        for _ in range(4):
            api.put()
        for job in api.take(limit=4):
            wish = {"lease": job["lease"], "jobs": [{"queue": "c"}, {"queue": "c"}]}
            key = {"Idempotency-Key": str(job["id"])}
            assert api.ask("POST", f"/v1/jobs/{job['id']}/spawn", wish, headers=key).status == 201


def test_a_job_that_was_made_though_the_store_reported_trouble_is_not_made_twice(
    api: Api, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = desk.orders.place_each

    def unsure(jobs: Sequence[Job]) -> None:
        place(jobs)
        raise StoreUnavailable("the connection broke; the commit may stand")

    with monkeypatch.context() as patch:
        patch.setattr(desk.orders, "place_each", unsure)
        assert api.ask("POST", "/v1/jobs", {"queue": "q"}, headers=KEY).status == 503
    assert api.ask("POST", "/v1/jobs", {"queue": "q"}, headers=KEY).status == 201
    assert len(desk.store.find(Filter())) == 1


def test_a_server_that_was_overtaken_keeps_nothing(
    api: Api, desk: Desk, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"jobs": [{"queue": "q"}]}
    enqueue_many, answers = desk.intake.enqueue_many, []

    def slow(*_: object, **__: object) -> None:
        monkeypatch.setattr(desk.intake, "enqueue_many", enqueue_many)
        clock.pass_(120)
        answers.append(api.ask("POST", "/v1/jobs/batch", said, headers=KEY))
        raise StoreUnavailable("and now this")

    monkeypatch.setattr(desk.intake, "enqueue_many", slow)
    assert api.ask("POST", "/v1/jobs/batch", said, headers=KEY).status == 503
    third = api.ask("POST", "/v1/jobs/batch", said, headers=KEY)
    assert (third.content, third.headers["idempotent-replayed"]) == (answers[0].content, "true")


def test_what_was_answered_at_too_great_length_is_not_done_twice(
    api: Api, clock: VirtualClock
) -> None:
    for _ in range(2):
        api.put(payload="x" * 2**20)
    wish = {"queues": ["q"], "visibility": "1h"}
    first = api.ask("POST", "/v1/claims", wish, headers=KEY)
    assert [job["id"] for job in first.json["jobs"]] == [1]
    for _ in range(2):
        again = api.ask("POST", "/v1/claims", wish, headers=KEY)
        assert (again.status, again.json["code"]) == (409, "answer_not_kept")
        assert "retry-after" not in again.headers
        clock.pass_(600)
    jobs = api.get("/v1/stats").json["jobs"]
    assert (jobs["RUNNING"], jobs["QUEUED"]) == (1, 1)


def test_keys_of_different_tokens_never_meet(api: Api) -> None:
    def made(name: str, asker: dict[str, str]) -> dict[str, str]:
        wish = {"name": name, "scopes": ["admin"]}
        token = api.ask("POST", "/v1/tokens", wish, headers=asker).json["token"]
        return {"Authorization": f"Bearer {token}"}

    first = made("a", {})
    second = made("a:b", first)
    said = {"queue": "q"}
    ids = [
        api.ask("POST", "/v1/jobs", said, headers={**token, "Idempotency-Key": key}).json["id"]
        for token, key in ((first, "b:x"), (second, "x"))
    ]
    assert ids == [1, 2]


@pytest.mark.parametrize("key", ["", " ", "x" * 256])
def test_a_key_has_a_decent_length(plain: Api, key: str) -> None:
    answer = plain.ask("POST", "/v1/jobs", {"queue": "q"}, headers={"Idempotency-Key": key})
    assert (answer.status, "Idempotency-Key" in answer.json["detail"]) == (400, True)
