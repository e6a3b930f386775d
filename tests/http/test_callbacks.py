"""Results posted to a URL: a job of their own, for whoever ends the first one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

import pytest

from stoker.desk import Desk
from stoker.doors.http.callbacks import QUEUE
from stoker.errors import BadInput, Duplicate
from stoker.kernel import family
from stoker.kernel.job import Job, State
from stoker.kernel.policy import Policy
from stoker.store import Filter
from stoker.watch import run_chores
from tests.engines import VirtualClock
from tests.http.client import PATIENCE, Api
from tests.http.conftest import Serve


class Posted(NamedTuple):
    """One request that came in."""

    path: str
    key: str
    body: Any


class Hook:
    """Somebody who wants to know, and answers as told."""

    def __init__(self, answers: Iterator[int]) -> None:
        posted: SimpleQueue[Posted] = SimpleQueue()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                posted.put(Posted(self.path, self.headers["Idempotency-Key"], body))
                self.send_response(next(answers))
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

        self._posted = posted
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()

    def next(self) -> Posted:
        return self._posted.get(timeout=PATIENCE)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def hook() -> Iterator[Callable[..., Hook]]:
    made: list[Hook] = []

    def make(*first: int) -> Hook:
        made.append(Hook(itertools.chain(first, itertools.repeat(204))))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_what_became_of_a_job_is_posted_until_it_is_heard(
    serve: Serve, hook: Callable[..., Hook]
) -> None:
    shop = hook(500, 302)
    server = serve("--http-callbacks", shop.base)
    said = {"type": "t", "payload": 1, "callback": f"{shop.base}done?a=b"}
    ref = server.done("POST", "/jobber/queue", said)["job-id"]
    (job,) = server.done("POST", "/v1/claims", {"queues": ["job_queue_t"]})["jobs"]
    words = {"lease": job["lease"], "result": {"sum": 3}}
    server.done("POST", f"/v1/jobs/{job['id']}/finish", words)
    heard = [shop.next() for _ in range(3)]
    assert {each.path for each in heard} == {"/done?a=b"}
    assert len({each.key for each in heard}) == 1
    assert heard[2].body == {
        "job-id": ref,
        "id": job["id"],
        "type": "t",
        "state": "FINISHED",
        "result": {"sum": 3},
        "error": None,
    }


def test_a_failure_and_a_cancellation_are_posted_as_well(
    serve: Serve, hook: Callable[..., Hook]
) -> None:
    shop = hook()
    server = serve("--http-callbacks", shop.base)
    said = {"queue": "q", "callback": shop.base}
    first = server.done("POST", "/v1/jobs", said)["id"]
    server.done("POST", f"/v1/jobs/{first}/cancel")
    assert shop.next().body["state"] == "CANCELLED"
    second = server.done("POST", "/v1/jobs", said)["id"]
    (job,) = server.done("POST", "/v1/claims", {"queues": ["q"]})["jobs"]
    server.done("POST", f"/v1/jobs/{second}/fail", {"lease": job["lease"], "error": "no"})
    told = shop.next().body
    assert (told["state"], told["error"], told["id"]) == ("FAILED", "no", second)


def test_nothing_is_posted_unless_an_operator_said_where_to(
    api: Api, door: Callable[..., Api]
) -> None:
    said = {"queue": "q", "callback": "https://hooks.example.com/x"}
    assert api.post("/v1/jobs", said).status == 403
    allowed = door(callbacks=("https://hooks.example.com/",))
    assert allowed.post("/v1/jobs", said).status == 201
    for url in ("https://hooks.example.com.evil.org/", "http://hooks.example.com/", "file:///etc"):
        assert allowed.post("/v1/jobs", {**said, "callback": url}).status == 403
    for url in ("https://hooks.example.com/a b", "https://hooks.example.com/\u2603"):
        assert allowed.post("/v1/jobs", {**said, "callback": url}).status == 400
    for more in ({"if_exists": "return"}, {"policy": {"repeat": "every 5m"}}):
        assert allowed.post("/v1/jobs", {**said, **more}).status == 400


# -- the sequel, on every engine -----------------------------------------------------------


def test_a_sequel_waits_for_its_job_and_runs_when_it_has_ended(desk: Desk) -> None:
    job_id = desk.flows.with_sequel(Job("q", payload=b"1"), Job("then"))
    assert desk.dispatch.claim(["then"]) == []
    run_chores(desk.clerk, "me")
    assert desk.dispatch.claim(["then"]) == []
    (job,) = desk.dispatch.claim(["q"])
    assert job.id == job_id
    desk.report.finish(job, b"2")
    (sequel,) = desk.dispatch.claim(["then"])
    (child,) = desk.store.find(Filter(parent_id=sequel.id))
    assert (child.id, child.state, child.result) == (job_id, State.FINISHED, b"2")
    assert (sequel.attempt, sequel.finished_children) == (1, 1)
    assert desk.report.finish(sequel).state is State.FINISHED


def test_a_job_that_cannot_be_taken_in_leaves_no_sequel(desk: Desk) -> None:
    desk.intake.enqueue(Job("q", ref="r"))
    with pytest.raises(Duplicate):
        desk.flows.with_sequel(Job("q", ref="r"), Job("then"))
    with pytest.raises(BadInput, match="repeats"):
        desk.flows.with_sequel(Job("q", policy=Policy(repeat="every 5m")), Job("then"))
    assert [job.queue for job in desk.store.find(Filter())] == ["q"]


def test_nothing_is_left_of_a_sequel_whose_job_did_not_come(
    desk: Desk, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the process had died between the two steps."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(family, "gather", die)
        with pytest.raises(KeyboardInterrupt):
            desk.flows.with_sequel(Job("q"), Job(QUEUE))
    run_chores(desk.clerk, "me")
    assert desk.dispatch.claim([QUEUE]) == []
    assert len(desk.store.find(Filter())) == 1
    clock.pass_(60)
    run_chores(desk.clerk, "me")
    assert desk.store.find(Filter()) == []
