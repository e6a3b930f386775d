"""Whole conversations over a socket, with a server process at the other end."""

from __future__ import annotations

import re

from tests.bedrock.wire import Wire, written

MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


def typed(wire: Wire, text: str) -> str:
    """What a person at a terminal sees: the status line and the body."""
    answer = wire.say(text)
    body = answer.body.decode()
    return f"{answer.status}\n{body}" if body else answer.status


def test_the_sample_session_typed_at_a_terminal(wire: Wire) -> None:
    made = typed(wire, 'CreateJob\nname: foo\ndata: {"value":1}\nrepeat: finished, +1 minute\n\n')
    assert made == '200 OK\n{"jobID":1}'

    got = wire.say("GetJob\nname: foo\n\n")
    assert got.status == "200 OK"
    assert {name: got.json[name] for name in ("data", "jobID", "name")} == {
        "data": {"value": 1},
        "jobID": 1,
        "name": "foo",
    }

    assert typed(wire, 'UpdateJob\njobID: 1\ndata: {"value":2}\n\n') == "200 OK"

    seen = wire.say("QueryJob\njobID: 1\n\n").json
    assert {name: seen[name] for name in ("data", "jobID", "name", "state")} == {
        "data": {"value": 2},
        "jobID": 1,
        "name": "foo",
        "state": "RUNNING",
    }

    assert typed(wire, 'FinishJob\njobID: 1\ndata: {"value":3}\n\n') == "200 OK"
    assert typed(wire, "GetJob\nname: foo\n\n") == "404 No job found"

    rows = typed(wire, "Query\nquery: select * from jobs;\n\n")
    assert re.fullmatch(
        rf'200 OK\n\[\["{MOMENT}",1,"QUEUED","foo","{MOMENT}","{MOMENT}",'
        r'"FINISHED, \+1 MINUTE",\{"value":3\}\]\]',
        rows,
    )

    wire.ask("UpdateJob", jobID=1, data={"value": 3}, nextRun="2001-01-01")
    again = wire.say("GetJob\nname: foo\n\n")
    assert (again.status, again.json["data"]) == ("200 OK", {"value": 3})


def test_a_reply_has_all_that_programs_look_for(wire: Wire) -> None:
    wire.send(written("CreateJob", name="a"))
    raw = wire.socket.recv(65_536)
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    assert status == "200 OK"
    assert re.fullmatch(rb'\{"jobID":\d+\}', body)
    names = [line.split(": ")[0] for line in lines]
    assert names == ["commitCount", "nodeName", "processTime", "totalTime", "Content-Length"]
    assert lines[-1] == f"Content-Length: {len(body)}"


def test_commits_are_counted_and_writes_take_time(wire: Wire) -> None:
    counts = []
    for answer in (
        wire.ask("CreateJob", name="counted"),
        wire.ask("GetJob", name="counted"),
        wire.ask("GetJob", name="counted"),
        wire.ask("RequeueJobs", jobIDs=""),
    ):
        assert int(answer.headers["processTime"]) > 0
        counts.append(int(answer.headers["commitCount"]))
    assert counts == sorted(set(counts))
    for answer in (wire.ask("QueryJob", jobID=1), wire.ask("CreateJob")):
        assert "processTime" not in answer.headers
    assert "commitCount" not in wire.ask("Ping").headers


def test_a_client_for_machines_on_one_socket(wire: Wire) -> None:
    """CRLF, a length with every request, doubled backslashes, and headers it always sends."""
    general = {
        "requestID": "x1",
        "lastIP": "10.0.0.1",
        "writeConsistency": "ASYNC",
        "priority": 500,
    }
    data = {"path": "a\\b", "text": 'say "é"/', "_commitCounts": {"auth": 9}}
    made = wire.ask(
        "CreateJob",
        name="www-prod/Mail?id=1",
        data=data,
        jobPriority=500,
        unique="false",
        overwrite="true",
        idempotent="false",
        Connection="wait",
        **general,
    )
    count = made.headers["commitCount"]
    jobs = wire.ask(
        "GetJobs", name="www-prod/*", numResults=10, getMockedJobs="true", commitCount=count
    ).json["jobs"]
    assert [job["data"] for job in jobs] == [data]
    job_id = jobs[0]["jobID"]
    late = wire.ask("RetryJob", jobID=job_id, delay=0, ignoreRepeat="false", commitCount=999_999)
    assert late.status == "200 OK"
    assert wire.ask("GetJob", name="www-prod/Mail*").json["jobID"] == job_id
    assert wire.ask("FinishJob", jobID=job_id, data=data).status == "200 OK"
    missing = wire.ask("QueryJob", jobID=job_id)
    assert (missing.status, missing.body) == ("404 No job with this jobID", b"")
    assert "Connection" not in missing.headers
