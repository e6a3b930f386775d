"""Whatever comes in, there is one line in the log for it, nothing has changed, and on it goes."""

from __future__ import annotations

import json

import pytest

from stoker import Job, Twin
from stoker.desk import Desk
from stoker.errors import BadInput
from stoker.store.memory import MemoryStore
from tests.engines import VirtualClock
from tests.stdio.bus import Bus, worker_id

ANN = worker_id("ann")
NOW = "2023-11-14T22:13:20Z"
ADD = '"topic": "default/job_queue/add_job"'
DEEP = "[" * 100_000 + "]" * 100_000


def add(payload: str) -> bytes:
    return f'{{{ADD}, "payload": {payload}}}'.encode()


def idle(**envelope: object) -> bytes:
    message = {
        "topic": f"default/job_queue/workers/{ANN}/worker_idle",
        "service_uuid": ANN,
        "created_at": NOW,
        "payload": {"queue_name": "q"},
        **envelope,
    }
    return json.dumps({k: v for k, v in message.items() if v != "missing"}).encode()


def about_one(verb: str, **fields: object) -> bytes:
    topic = f"default/job_queue/workers/{ANN}/{verb}"
    return idle(topic=topic, payload={"uuid": "one", "queue_name": "q", **fields})


BAD = {
    b"": "the line is blank",
    b"not JSON": "json_parse_error: JSON is malformed",
    b'{"topic": "default/tick"': "json_parse_error: Input data was truncated",
    b'{"topic": "default/tick"} {}': "json_parse_error: JSON is malformed: trailing",
    b"[1, 2]": "Expected `object`, got `array`",
    b"null": "Expected `object`, got `null`",
    b'"topic"': "Expected `object`, got `str`",
    b"\xff\xfe": "the line is no UTF-8: invalid start byte at byte 0",
    b'{"topic": "default/tick", "x": "\xe9"}': "the line is no UTF-8",
    b'{"payload": {}}': "Object missing required field `topic`",
    b'{"topic": 7}': "Expected `str`, got `int` - at `$.topic`",
    b'{"topic": null}': "Expected `str`, got `null` - at `$.topic`",
    b'{"topic": "default/no_such_topic"}': "unknown topic 'no_such_topic'",
    b'{"topic": "default/"}': "unknown topic ''",
    b'{"topic": "tick"}': "unknown topic 'tick': its namespace is not 'default'",
    b'{"topic": "other/tick"}': "unknown topic 'other/tick'",
    b'{"topic": "default/job_queue/workers/ann/worker_idle"}': "unknown topic",
    idle(topic=f"default/job_queue/workers/{ANN}/dance"): "unknown topic",
    f"{{{ADD}}}".encode(): "the message has no payload",
    add("null"): "the payload is no object",
    add("[]"): "the payload is no object",
    add('"uuid"'): "the payload is no object",
    add("{}"): "uuid is missing",
    add('{"uuid": "u"}'): "queue_name is missing",
    add('{"uuid": 7, "queue_name": "q"}'): "uuid must be a text that is not empty, not 7",
    add('{"uuid": "", "queue_name": "q"}'): "uuid must be a text that is not empty, not ''",
    add('{"uuid": null, "queue_name": "q"}'): "uuid is missing",
    add('{"uuid": "u", "queue_name": ["q"]}'): "queue_name must be a text",
    add('{"uuid": "u", "queue_name": "q", "priority": 10}'): "priority must be a number from 0",
    add('{"uuid": "u", "queue_name": "q", "priority": -1}'): "priority must be a number from 0",
    add('{"uuid": "u", "queue_name": "q", "priority": 1.5}'): "priority must be a number from 0",
    add('{"uuid": "u", "queue_name": "q", "priority": true}'): "priority must be a number from 0",
    add('{"uuid": "u", "queue_name": "q", "priority": "high"}'): "priority must be a number",
    add('{"uuid": "u", "queue_name": "q", "n": 1e999}'): "Number out of range",
    add('{"uuid": "\\ud800", "queue_name": "q"}'): "json_parse_error: JSON is malformed",
    add(f'{{"uuid": "u", "queue_name": "q", "deep": {DEEP}}}'): "json_parse_error: nested too deep",
    add('{"jobs": {}}'): "jobs must be a list of objects",
    add('{"jobs": [1]}'): "jobs must be a list of objects",
    add('{"jobs": [{"queue_name": "q"}]}'): "uuid is missing",
    idle(service_uuid="missing"): "service_uuid is missing",
    idle(service_uuid=""): "service_uuid is missing",
    idle(service_uuid=5): "Expected `str | null`, got `int` - at `$.service_uuid`",
    idle(created_at="missing"): "created_at is missing",
    idle(created_at="yesterday"): "created_at is 'yesterday', which is no time in ISO 8601",
    idle(
        created_at="0001-01-01T00:00:00Z"
    ): "created_at is '0001-01-01T00:00:00Z', which is out of",
    idle(payload={}): "queue_name is missing",
    idle(payload="missing"): "the message has no payload",
    about_one("job_accepted"): "started_at is missing",
    about_one("job_accepted", started_at="soon"): "started_at is 'soon', which is no time",
    about_one("job_finished", finished_at=0): "finished_at is 0, which is no time",
    about_one("worker_progress", uuid=""): "uuid must be a text",
    b'{"topic": "default/job_queue/list_job_queue", "payload": {}}': "queue_name is missing",
    b'{"topic": "default/job_queue/del_job", "payload": {}}': "uuid is missing",
}


@pytest.fixture
def bus(clock: VirtualClock) -> Bus:
    """What is wrong with a line is found out before any store is asked: one will do."""
    return Bus(Desk(MemoryStore(clock)), clock)


@pytest.mark.parametrize("line", BAD, ids=[str(number) for number in range(len(BAD))])
def test_a_bad_line_is_told_in_the_log_and_changes_nothing(
    bus: Bus, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    ann = bus.worker("ann")
    bus.say(ann.idle(), bus.add("one"), bus.add("two"))
    before = (bus.states(), bus.ask("list_worker_queue"))
    caplog.clear()
    assert bus.say_lines([line]) == []
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage().startswith(BAD[line])
    assert (bus.states(), bus.ask("list_worker_queue")) == before


def test_the_lines_around_a_bad_one_are_heard(bus: Bus) -> None:
    bus.say_lines(line for bad in BAD for line in (bad, json.dumps(bus.add()).encode()))
    assert len(bus.states()["queued"]) == len(BAD)


def test_the_text_of_a_bad_line_is_in_the_log_up_to_a_length(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    bus.say_lines([b"{" + b"x" * 5000])
    (record,) = caplog.records
    assert record.getMessage().endswith(": {" + "x" * 999)


def test_a_job_that_is_refused_spoils_only_its_own_message(
    bus: Bus, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue_many = bus.desk.intake.enqueue_many

    def picky(jobs: list[Job], **options: Twin) -> object:
        if any(job.queue == "unwanted" for job in jobs):
            raise BadInput("unwanted")
        return enqueue_many(jobs, **options)

    monkeypatch.setattr(bus.desk.intake, "enqueue_many", picky)
    bus.say(bus.add("one"), bus.add("two", "unwanted"), bus.add("three"))
    assert bus.states() == {"queued": ["one", "three"]}
    assert [record.getMessage() for record in caplog.records] == ["not added: unwanted"]


def test_the_namespace_is_taken_off_the_front_alone(clock: VirtualClock) -> None:
    bus = Bus(Desk(MemoryStore(clock)), clock, listener="job_queue", publisher="lab/7")
    line = json.dumps({**bus.add("one"), "topic": "job_queue/job_queue/add_job"}).encode()
    bus.say_lines([line])
    (answer,) = bus.say_lines(
        [b'{"topic": "job_queue/list_queue_jobs", "payload": {"queue_name": "q"}}']
    )
    assert answer.topic == "lab/7/job_queue/list_queue_jobs/response"
    assert answer.payload["count"] == 1
