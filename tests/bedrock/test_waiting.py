"""Connection: wait, and clients that go away at the wrong moment."""

from __future__ import annotations

import socket
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.bedrock.conftest import Serve
from tests.bedrock.wire import Server, Wire, eventually, written

NONE = "404 No job found"


def waits(wire: Wire, name: str, timeout: int = 30_000, **headers: object) -> None:
    wire.send(written("GetJob", name=name, Connection="wait", Timeout=timeout, **headers))


def until_waiting(wire: Wire, count: int) -> None:
    eventually(lambda: wire.ask("Status").json["waiting"] == count)


def state(wire: Wire, job_id: int) -> str:
    return str(wire.ask("QueryJob", jobID=job_id).json["state"])


@pytest.mark.parametrize("name", ["made", "m*", "other, made"])
def test_whoever_waits_gets_the_job_when_it_is_made(server: Server, wire: Wire, name: str) -> None:
    waiting = server.connect()
    waits(waiting, name)
    until_waiting(wire, 1)
    job_id = wire.ask("CreateJob", name="made").json["jobID"]
    assert waiting.answer().json["jobID"] == job_id
    until_waiting(wire, 0)


def test_a_job_that_is_there_is_given_without_waiting(wire: Wire) -> None:
    job_id = wire.ask("CreateJob", name="there").json["jobID"]
    assert wire.ask("GetJob", name="there", connection="WAIT").json["jobID"] == job_id


def test_nothing_comes_and_the_time_is_up(wire: Wire) -> None:
    begun = time.monotonic()
    answer = wire.ask("GetJob", name="never", Connection="wait", Timeout=50)
    assert answer.status == NONE
    assert time.monotonic() - begun >= 0.045  # timers may be a little early
    assert (
        wire.ask("GetJobs", name="never", numResults=3, connection="wait", timeout=1).status == NONE
    )


def test_waiting_has_no_effect_on_other_commands(wire: Wire) -> None:
    assert wire.ask("CreateJob", name="plain", Connection="wait").status == "200 OK"
    assert wire.ask("Ping", Connection="wait").status == "200 OK"


def test_a_job_that_falls_due_is_given_out_then(server: Server, wire: Wire) -> None:
    due = datetime.now(UTC) + timedelta(seconds=0.3)
    first_run = due.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    wire.ask("CreateJob", name="due", firstRun=first_run)
    waiting = server.connect()
    waits(waiting, "due")
    assert waiting.answer().json["nextRun"] == first_run.removesuffix(".000")
    assert datetime.now(UTC) >= due - timedelta(milliseconds=1)


def test_a_job_that_comes_back_is_given_to_whoever_waits(server: Server, wire: Wire) -> None:
    job_id = wire.ask("CreateJob", name="back").json["jobID"]
    wire.ask("GetJob", name="back")
    for verb, header in (("RetryJob", "jobID"), ("RequeueJobs", "jobIDs")):
        waiting = server.connect()
        waits(waiting, "back")
        until_waiting(wire, 1)
        wire.ask(verb, **{header: job_id})
        assert waiting.answer().json["jobID"] == job_id


def test_a_job_that_nobody_finished_in_time_is_given_to_whoever_waits(
    server: Server, wire: Wire
) -> None:
    wire.ask("CreateJob", name="lost", jobTimeout=300)
    assert wire.ask("GetJob", name="lost").json["attempt"] == 1
    waiting = server.connect()
    waits(waiting, "lost")
    assert waiting.answer().json["attempt"] == 2


def test_first_come_first_served(server: Server, wire: Wire) -> None:
    early, late = server.connect(), server.connect()
    waits(early, "turn")
    until_waiting(wire, 1)
    waits(late, "turn")
    until_waiting(wire, 2)
    ids = [wire.ask("CreateJob", name="turn").json["jobID"] for _ in range(2)]
    assert [each.answer().json["jobID"] for each in (early, late)] == ids


def test_many_who_wait_share_many_jobs_each_getting_another(server: Server, wire: Wire) -> None:
    crowd = [server.connect() for _ in range(200)]
    for number, each in enumerate(crowd):
        waits(each, "share" if number % 2 else "sh*")
    until_waiting(wire, 200)
    made = wire.ask("CreateJobs", jobs=[{"name": "share"}] * 200).json["jobIDs"]
    got = [each.answer().json["jobID"] for each in crowd]
    assert sorted(got) == sorted(made)


def test_one_who_waits_for_many_gets_what_there_is(server: Server, wire: Wire) -> None:
    waiting = server.connect()
    waiting.send(written("GetJobs", name="some", numResults=10, Connection="wait", Timeout=30_000))
    until_waiting(wire, 1)
    made = wire.ask("CreateJobs", jobs=[{"name": "some"}] * 3).json["jobIDs"]
    assert [job["jobID"] for job in waiting.answer().json["jobs"]] == made


def test_a_job_of_the_wanted_priority_is_waited_for(server: Server, wire: Wire) -> None:
    waiting = server.connect()
    waits(waiting, "rank", jobPriority=1000)
    until_waiting(wire, 1)
    wire.ask("CreateJob", name="rank", jobPriority=500)
    wanted = wire.ask("CreateJob", name="rank", jobPriority=1000).json["jobID"]
    assert waiting.answer().json["jobID"] == wanted


def test_a_job_made_at_another_server_on_the_same_store_is_heard_of(serve: Serve) -> None:
    here, there = serve(), serve()
    waiting, maker = here.connect(), there.connect()
    watcher = here.connect()
    waits(waiting, "far*")
    until_waiting(watcher, 1)
    job_id = maker.ask("CreateJob", name="far away").json["jobID"]
    assert waiting.answer().json["jobID"] == job_id
    assert maker.ask("FinishJob", jobID=job_id).status == "200 OK"


def test_what_one_server_remembers_is_no_truth_to_another(serve: Serve) -> None:
    here, there = serve().connect(), serve().connect()
    job_id = here.ask("CreateJob", name="foo", jobTimeout=600_000).json["jobID"]
    first = here.ask("GetJob", name="foo").json["token"]
    there.ask("RequeueJobs", jobIDs=job_id)
    second = there.ask("GetJob", name="foo").json["token"]
    late = here.ask("UpdateJob", jobID=job_id, data={"x": 1}, token=first)
    assert late.status == "405 The job was handed out again, this token is no longer its own"
    assert here.ask("UpdateJob", jobID=job_id, data={"x": 2}, token=second).status == "200 OK"
    assert there.ask("FinishJob", jobID=job_id, token=second).status == "200 OK"
    assert here.ask("FinishJob", jobID=job_id).status == "404 No job with this jobID"


# -- clients that go away ------------------------------------------------------------------


def test_whoever_goes_away_waits_no_more_and_takes_nothing_along(
    server: Server, wire: Wire
) -> None:
    gone, closed = server.connect(), server.connect()
    for each in (gone, closed):
        waits(each, "gone")
    until_waiting(wire, 2)
    gone.reset()
    closed.close()
    until_waiting(wire, 0)
    job_id = wire.ask("CreateJob", name="gone").json["jobID"]
    assert state(wire, job_id) == "QUEUED"


def test_whoever_stops_speaking_while_it_waits_is_told_that_it_is_over(
    server: Server, wire: Wire
) -> None:
    half = server.connect()
    waits(half, "half")
    until_waiting(wire, 1)
    half.socket.shutdown(socket.SHUT_WR)
    assert half.answer().status == "556 Aborted"
    assert half.ended()


def test_a_job_whose_answer_nobody_read_goes_back_at_once(server: Server, wire: Wire) -> None:
    job_id = wire.ask("CreateJob", name="unread").json["jobID"]
    rude = server.connect()
    rude.send(written("GetJob", name="unread"))
    assert rude.socket.recv(3, socket.MSG_PEEK) == b"200"
    assert state(wire, job_id) == "RUNNING"
    rude.close()  # with something left to read, which resets the connection
    eventually(lambda: state(wire, job_id) == "QUEUED")
    back = wire.ask("GetJob", name="unread").json
    assert back["jobID"] == job_id


def test_a_job_whose_answer_was_read_stays_with_whoever_read_it(server: Server, wire: Wire) -> None:
    job_id = wire.ask("CreateJob", name="read").json["jobID"]
    for leave in (Wire.close, Wire.reset):
        polite = server.connect()
        assert polite.ask("GetJob", name="read").json["jobID"] == job_id
        assert polite.ask("Ping").status == "200 OK"
        leave(polite)
        assert wire.ask("Ping").status == "200 OK"
        assert state(wire, job_id) == "RUNNING"
        wire.ask("RequeueJobs", jobIDs=job_id)


def test_no_job_is_lost_to_clients_that_leave_as_soon_as_they_have_asked(
    server: Server, wire: Wire
) -> None:
    made = wire.ask("CreateJobs", jobs=[{"name": "hit and run"}] * 50).json["jobIDs"]
    for number in range(50):
        runner = server.connect()
        runner.send(written("GetJob", name="hit and run"))
        runner.close() if number % 2 else runner.reset()
    eventually(lambda: {state(wire, job_id) for job_id in made} == {"QUEUED"})


def test_a_server_that_stops_tells_whoever_waits(serve: Serve) -> None:
    server = serve()
    waiting, watcher, idle = server.connect(), server.connect(), server.connect()
    waits(waiting, "stop")
    until_waiting(watcher, 1)
    job_id = watcher.ask("CreateJob", name="kept").json["jobID"]
    assert server.stop() == ""
    answer = waiting.answer()
    assert (answer.status, answer.headers["Connection"]) == (NONE, "close")
    assert waiting.ended() and idle.ended()
    after = serve().connect()
    assert after.ask("GetJob", name="kept").json["jobID"] == job_id
