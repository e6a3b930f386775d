"""Questions and deletions, and what is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stoker.doors.stdio.wire import stamp
from tests.stdio.bus import SECOND, Bus, Fields, Sent, worker_id


def test_waiting_jobs_are_listed_in_the_order_of_service(bus: Bus) -> None:
    times = {}
    for uuid, priority in (("one", 5), ("two", 9), ("three", 0), ("four", 5)):
        bus.clock.pass_(1)
        times[uuid] = stamp(bus.clock.now)
        bus.say(bus.add(uuid, priority=priority))
    bus.say(bus.add("elsewhere", "other"))
    expected = [
        {"uuid": uuid, "priority": priority, "queued_at": times[uuid]}
        for uuid, priority in (("three", 0), ("one", 5), ("four", 5), ("two", 9))
    ]
    assert bus.ask("list_job_queue") == expected
    assert bus.ask("list_queue_jobs") == expected


def test_a_long_queue_is_listed_whole(bus: Bus) -> None:
    listed = [{"id": f"job {n}", "queue_name": "q"} for n in range(1203)]
    bus.say(bus.message("job_queue/add_job", {"jobs": listed}))
    uuids = [item["uuid"] for item in bus.ask("list_job_queue")]
    assert uuids == [f"job {n}" for n in range(1203)]


def test_dispatched_jobs_are_listed_with_worker_and_time(bus: Bus) -> None:
    ann = bus.worker("ann")
    bus.say(ann.idle(), bus.add("one"), bus.add("two"))
    at = stamp(bus.clock.now)
    bus.clock.pass_(1)
    expected = [{"uuid": "one", "worker_uuid": ann.uuid, "dispatched_at": at}]
    assert bus.ask("list_leased_queue") == expected
    assert bus.ask("list_queue_dispatched") == expected
    assert bus.ask("list_progress_queue") == bus.ask("list_queue_progress") == []


def test_workers_are_listed_with_state_and_time_longest_silent_first(bus: Bus) -> None:
    ann, bob = bus.worker("ann"), bus.worker("bob")
    bus.say(ann.idle())
    first = bus.clock.now
    bus.clock.pass_(1)
    bus.say(bob.idle(), bus.worker("cleo", "other").idle())
    second = bus.clock.now
    bus.clock.pass_(1)
    bus.say(bus.add("one"))
    expected = [
        {"uuid": ann.uuid, "state": "busy", "last_seen": stamp(first)},
        {"uuid": bob.uuid, "state": "idle", "last_seen": stamp(second)},
    ]
    assert bus.ask("list_worker_queue") == expected
    assert bus.ask("list_queue_workers") == expected


def test_workers_can_be_listed_between_two_moments(bus: Bus) -> None:
    times = []
    for name in ("ann", "bob", "cleo"):
        bus.say(bus.worker(name).idle())
        times.append(bus.clock.now)
        bus.clock.pass_(1)

    def found(**bounds: Any) -> list[str]:
        items = bus.ask("list_worker_queue", **bounds)
        return [item["uuid"].partition("_")[0] for item in items]

    assert found() == found(later_than="-inf", earlier_than="+inf") == ["ann", "bob", "cleo"]
    assert found(later_than=stamp(times[1])) == ["bob", "cleo"]
    assert found(earlier_than=stamp(times[1])) == ["ann", "bob"]
    assert found(later_than=stamp(times[0] + 1), earlier_than=stamp(times[2] - 1)) == ["bob"]
    assert found(later_than="no time at all", earlier_than=7) == ["ann", "bob", "cleo"]


def test_every_word_of_a_worker_is_a_sign_of_life_and_tells_its_state(bus: Bus) -> None:
    ann = bus.worker("ann")
    bus.say(bus.add("one"))
    words: dict[str, tuple[Callable[[], Fields], str]] = {
        "idle": (ann.idle, "busy"),  # it is given the job at once
        "accepted": (lambda: ann.accepted("one"), "busy"),
        "progress": (lambda: ann.progress("one"), "busy"),
        "finished": (lambda: ann.finished("one"), "idle"),
        "idle again": (ann.idle, "idle"),
    }
    for word, (message, state) in words.items():
        bus.clock.pass_(2)
        bus.say(message())
        (item,) = bus.ask("list_worker_queue")
        assert (item["state"], item["last_seen"]) == (state, stamp(bus.clock.now)), word


@pytest.mark.parametrize("topic", ["job_queue/list_queue_jobs", "list_queue_jobs"])
def test_stub_names_are_understood_with_and_without_the_service_in_front(
    bus: Bus, topic: str
) -> None:
    bus.say(bus.add("one"))
    (answer,) = bus.say(bus.message(topic, {"queue_name": "q"}))
    assert answer.topic == "default/job_queue/list_queue_jobs/response"
    assert (answer.payload["count"], answer.payload["reply_to"]) == (1, None)


def test_a_question_is_answered_where_it_stands(bus: Bus) -> None:
    question = bus.message("job_queue/list_job_queue", {"queue_name": "q"})
    answers = bus.say(question, bus.add("one"), question, bus.add("two"), question)
    assert [answer.payload["count"] for answer in answers] == [0, 1, 2]


# -- deleting ------------------------------------------------------------------------------


def deleted(bus: Bus, uuid: str, topic: str = "job_queue/del_job", **fields: str) -> Sent:
    (answer,) = bus.say(bus.message(topic, {"uuid": uuid, **fields}))
    assert answer.topic == "default/job_queue/del_job/response"
    return answer


@pytest.mark.parametrize("topic", ["job_queue/del_job", "del_job"])
def test_a_waiting_job_is_deleted(bus: Bus, topic: str) -> None:
    bus.say(bus.add("one"), bus.add("two"))
    answer = deleted(bus, "one", topic)
    assert answer.payload == {"uuid": "one", "queue_name": "q", "deleted": True}
    assert bus.states() == {"queued": ["two"]}


def test_a_job_in_work_is_not_deleted_and_its_state_is_told(bus: Bus) -> None:
    ann = bus.worker("ann")
    bus.say(ann.idle(), bus.add("one"))
    answer = {"uuid": "one", "queue_name": "q", "deleted": False}
    assert deleted(bus, "one").payload == {**answer, "reason": "it is dispatched"}
    bus.say(ann.accepted("one"))
    assert deleted(bus, "one").payload == {**answer, "reason": "it is processing"}
    bus.say(ann.finished("one"))
    assert deleted(bus, "one").payload["deleted"]


def test_a_job_that_there_is_not_is_not_deleted(bus: Bus) -> None:
    bus.say(bus.add("one"))
    unknown = {"deleted": False, "reason": "there is no such job"}
    assert deleted(bus, "two").payload == {"uuid": "two", "queue_name": None, **unknown}
    other = deleted(bus, "one", queue_name="other").payload
    assert other == {"uuid": "one", "queue_name": "other", **unknown}
    assert bus.states() == {"queued": ["one"]}


def test_a_deleted_job_may_be_added_again(bus: Bus) -> None:
    bus.say(bus.add("one"))
    deleted(bus, "one")
    bus.say(bus.add("one"))
    assert bus.states() == {"queued": ["one"]}


# -- adding --------------------------------------------------------------------------------


def test_a_job_that_is_queued_in_work_or_finished_is_not_added_again(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    ann = bus.worker("ann")
    bus.say(bus.add("one"), bus.add("one"))
    assert bus.states() == {"queued": ["one"]}
    assert ann.was_given(bus.say(bus.add("one"), ann.idle())) == ["one"]
    assert bus.say(bus.add("one"), ann.accepted("one"), bus.add("one", "other")) == []
    assert bus.say(ann.finished("one"), bus.add("one")) == []
    assert bus.states() == bus.states("other") == {}
    told = {record.getMessage() for record in caplog.records}
    assert told == {"job one is there already and not added again"}


def test_many_jobs_may_come_in_one_message_all_or_none(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    def message(*jobs: object) -> dict[str, object]:
        return bus.message("job_queue/add_job", {"jobs": jobs})

    good = {"id": "one", "queue_name": "q", "priority": 7, "command": "x"}
    bus.say(message(good, {"uuid": "two", "queue_name": "other"}))
    assert (bus.states(), bus.states("other")) == ({"queued": ["one"]}, {"queued": ["two"]})
    bus.say(message({**good, "id": "three"}, {"id": "four"}), message(7), message("x"))
    assert len(caplog.records) == 3
    assert bus.states() == {"queued": ["one"]}
    (sent,) = bus.say(bus.worker("ann").idle())
    assert sent.payload == {**good, "uuid": "one", "dispatched_at": stamp(bus.clock.now)}


def test_an_assignment_tells_its_own_time_of_dispatch(bus: Bus) -> None:
    bus.say(bus.add("one", dispatched_at="long ago"))
    (sent,) = bus.say(bus.worker("ann").idle())
    assert sent.payload["dispatched_at"] == stamp(bus.clock.now)
    assert bus.lines[-1].count(b"dispatched_at") == 1


def test_a_job_object_is_passed_on_as_it_was_written(bus: Bus) -> None:
    written = b'{"uuid":"one" ,"queue_name":"q","n":12345678901234567890123,"f":1.50,"s":"\\u00e9"}'
    bus.say_lines([b'{"payload":' + written + b',"topic":"default/job_queue/add_job"}'])
    bus.say(bus.worker("ann").idle())
    assert written[:-1] in bus.lines[-1]


def test_identity_and_time_of_the_processor_are_in_every_message(bus: Bus) -> None:
    bus.say(bus.worker("ann").idle(), bus.add("one"))
    bus.ask("list_job_queue")
    assert worker_id("ann").encode() in bus.lines[0]
    for line in bus.lines:
        head = b',"service_uuid":"processor","service_name":"job_queue","service_host":"here",'
        assert head + f'"created_at":"{stamp(bus.clock.now)}"'.encode() in line


def test_the_listing_forgets_nothing_at_the_border_of_a_second(bus: Bus) -> None:
    ann = bus.worker("ann")
    bus.say(ann.idle(created_at="2023-11-14T22:13:19.999999999Z"))
    assert [item["last_seen"] for item in bus.ask("list_worker_queue")] == [
        stamp(bus.clock.now - 1)
    ]
    assert bus.clock.now % SECOND == 0
