"""The event stream: what becomes of jobs and queues, and how one resumes."""

from __future__ import annotations

import http.client
import json
from collections.abc import Generator
from typing import Any, NamedTuple

import pytest

from tests.http.client import Api, Server
from tests.http.conftest import Serve


class Event(NamedTuple):
    """One event, read."""

    id: str
    kind: str
    data: Any


def read(text: str) -> list[Event]:
    """The events of a stream that has ended."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if "data" in fields:
            found.append(Event(fields["id"], fields["event"], json.loads(fields["data"])))
    return found


def now(api: Api, query: str = "", **headers: str) -> list[Event]:
    """How things are."""
    answer = api.get(f"/v1/events?once=true{query}", **headers)
    assert answer.headers["content-type"] == "text/event-stream"
    return read(answer.content.decode())


def states(events: list[Event]) -> list[tuple[int, str]]:
    return [(event.data["id"], event.data["state"]) for event in events]


def test_a_stream_begins_with_how_things_are(api: Api) -> None:
    a, b = api.put("a", payload="two\nlines"), api.put("b")
    assert states(now(api, f"&job={a}&job={b}")) == [(a, "QUEUED"), (b, "QUEUED")]
    assert [event.data["name"] for event in now(api)] == ["a", "b"]
    assert [event.data["name"] for event in now(api, "&queue=b*")] == ["b"]
    assert {event.kind for event in now(api, f"&queue=*&job={a}")} == {"queue", "job"}


def test_whoever_resumes_is_told_what_is_no_longer_so_and_nothing_else(api: Api) -> None:
    a, b = api.put("a"), api.put("b")
    query = f"&job={a}&job={b}"
    last = now(api, query)[-1].id
    assert now(api, f"{query}&after={last}") == []
    (job,) = api.take("b")
    api.say(job, "finish")
    assert states(now(api, f"{query}&after={last}")) == [(b, "FINISHED")]
    assert states(now(api, query, **{"last-event-id": last})) == [(b, "FINISHED")]


def test_a_change_of_settings_is_told(api: Api) -> None:
    api.put("a")
    last = now(api)[-1].id
    api.done("PATCH", "/v1/queues/a", {"rate": "5/s"})
    (event,) = now(api, f"&after={last}")
    assert (event.kind, event.data["settings"]["rate"]) == ("queue", "5 per second")


def test_an_id_that_is_not_known_leads_to_the_whole_picture(api: Api) -> None:
    a = api.put()
    (event,) = now(api, f"&job={a}")
    epoch = event.id.partition("-")[0]
    future = (f"{epoch}-99", f"{epoch}-{'9' * 5000}", f"{epoch}--1", f"{epoch}-")
    for after in ("feedbeef-7", "nonsense", "-", "٣-٣", *future):
        assert states(now(api, f"&job={a}&after={after}")) == [(a, "QUEUED")]


def test_a_job_that_is_gone_is_told_to_be_gone(api: Api) -> None:
    a = api.put()
    last = now(api, f"&job={a}&queue=*")[-1].id
    api.done("DELETE", f"/v1/jobs/{a}")
    gone = now(api, f"&job={a}&after={last}")
    assert [(event.kind, event.data) for event in gone] == [("gone", {"job": a})]


@pytest.mark.parametrize(
    "query",
    ["job=x", "job=-1", "job=99999999999999999999", "job=" + "9" * 5000, "queue=" + "*" * 300],
)
def test_what_nobody_can_watch_is_refused(plain: Api, query: str) -> None:
    assert plain.get(f"/v1/events?{query}").status == 400


# -- live, from another process ------------------------------------------------------------


def listen(server: Server, query: str, **headers: str) -> Generator[Event]:
    """Events as they come."""
    connection = server.connect()
    connection.request("GET", f"/v1/events?{query}", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200
    return _events(answer)


def _events(answer: http.client.HTTPResponse) -> Generator[Event]:
    block = ""
    while line := answer.readline().decode():
        block += line
        if line == "\n":
            yield from read(block)
            block = ""


def test_changes_made_in_another_process_are_heard_and_none_is_lost_by_resuming(
    serve: Serve,
) -> None:
    here, there = serve(), serve()
    job_id = there.done("POST", "/v1/jobs", {"queue": "q"})["id"]
    stream = listen(here, f"job={job_id}&queue=*")
    first = [next(stream), next(stream)]
    assert {event.kind for event in first} == {"job", "queue"}
    (job,) = there.done("POST", "/v1/claims", {"queues": ["q"]})["jobs"]
    heard = next(event for event in stream if event.kind == "job")
    assert heard.data["state"] == "RUNNING"
    words = {"lease": job["lease"], "progress": 0.5}
    there.done("POST", f"/v1/jobs/{job_id}/progress", words)
    heard = next(event for event in stream if event.kind == "job")
    assert (heard.data["state"], heard.data["progress"]) == ("RUNNING", 0.5)
    stream.close()
    there.done("POST", f"/v1/jobs/{job_id}/finish", {"lease": job["lease"]})
    again = listen(here, f"job={job_id}", **{"Last-Event-ID": heard.id})
    assert next(again).data["state"] == "FINISHED"


def test_streams_end_when_the_server_stops(serve: Serve) -> None:
    server = serve()
    server.done("POST", "/v1/jobs", {"queue": "q"})
    stream = listen(server, "queue=*")
    next(stream)
    server.stop()
    assert list(stream) == []


def test_there_are_only_so_many_streams(door: Any) -> None:
    api = door(streams=0)
    assert api.get("/v1/events").status == 429
