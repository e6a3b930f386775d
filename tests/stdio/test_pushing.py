"""Jobs go to idle workers of their queue: who gets which, and when."""

from __future__ import annotations

from stoker import Job
from stoker.doors.stdio.wire import stamp
from tests.stdio.bus import SECOND, Bus, Fields


def test_a_job_goes_to_the_worker_that_is_idle(bus: Bus) -> None:
    ann = bus.worker("ann")
    assert bus.say(ann.idle()) == []
    (sent,) = bus.say(bus.add("one", command="ffmpeg", args=["-i", "x"], extra={"kept": [1, None]}))
    assert sent.topic == f"default/job_queue/workers/{ann.uuid}/job_assignment"
    assert sent.payload == {
        "uuid": "one",
        "queue_name": "q",
        "command": "ffmpeg",
        "args": ["-i", "x"],
        "extra": {"kept": [1, None]},
        "dispatched_at": stamp(bus.clock.now),
    }


def test_a_worker_that_becomes_idle_is_given_a_waiting_job(bus: Bus) -> None:
    ann = bus.worker("ann")
    assert bus.say(bus.add("one")) == []
    assert ann.was_given(bus.say(ann.idle())) == ["one"]


def test_a_job_of_one_queue_never_goes_to_a_worker_of_another(bus: Bus) -> None:
    here, there = bus.worker("here"), bus.worker("there", "other")
    assert bus.say(there.idle(), bus.add("one")) == []
    assert here.was_given(bus.say(here.idle())) == ["one"]


def test_a_queue_comes_into_being_when_it_is_named(bus: Bus) -> None:
    ann = bus.worker("ann", "queue ☃ with * and [brackets]")
    assert bus.say(ann.idle()) == []
    assert ann.was_given(bus.say(bus.add("one", ann.queue))) == ["one"]
    assert bus.ask("list_job_queue", "never heard of") == []


def test_jobs_are_served_first_in_first_out(bus: Bus) -> None:
    ann = bus.worker("ann")
    bus.say(bus.add("one"), bus.add("two"), bus.add("three"))
    given = ann.was_given(bus.say(ann.idle()))
    for uuid in ("one", "two"):
        given += ann.was_given(bus.say(ann.finished(uuid)))
    assert given == ["one", "two", "three"]


def test_a_lower_priority_number_goes_first_and_nothing_said_means_five(bus: Bus) -> None:
    ann = bus.worker("ann")
    for priority in (9, "0", 6, None, 4, 5, "3"):
        named: Fields = {} if priority is None else {"priority": priority}
        bus.say(bus.add(f"prio {priority}", **named))
    served = ann.was_given(bus.say(ann.idle()))
    while given := ann.was_given(bus.say(ann.finished(served[-1]))):
        served += given
    order = ["0", "3", "4", "None", "5", "6", "9"]
    assert served == [f"prio {priority}" for priority in order]


def test_all_idle_workers_get_a_job_at_once(bus: Bus) -> None:
    workers = [bus.worker(name) for name in ("ann", "bob", "cleo")]
    bus.say(*(worker.idle() for worker in workers))
    sent = bus.say(*(bus.add(f"job {n}") for n in range(5)))
    assert [worker.was_given(sent) for worker in workers] == [["job 0"], ["job 1"], ["job 2"]]


def test_the_worker_that_has_been_idle_longest_comes_first(bus: Bus) -> None:
    ann, bob = bus.worker("ann"), bus.worker("bob")
    bus.say(bob.idle())
    bus.clock.pass_(1)
    bus.say(ann.idle())
    bus.clock.pass_(1)
    bus.say(bob.idle())
    assert bob.was_given(bus.say(bus.add("one"))) == ["one"]


def test_a_worker_that_was_given_a_job_is_not_given_another(bus: Bus) -> None:
    ann = bus.worker("ann")
    bus.say(ann.idle())
    assert ann.was_given(bus.say(bus.add("one"))) == ["one"]
    assert bus.say(bus.add("two")) == []
    assert bus.say(ann.accepted("one")) == []
    assert bus.say(ann.progress("one", progress=0.5)) == []
    assert ann.was_given(bus.say(ann.finished("one"))) == ["two"]


def test_a_worker_that_reports_on_some_other_work_is_busy_until_it_is_idle_again(bus: Bus) -> None:
    ann = bus.worker("ann")
    bus.say(ann.idle())
    assert bus.say(ann.progress("unheard of", progress=0.1), bus.add("one")) == []
    bus.clock.pass_(1)
    assert ann.was_given(bus.say(ann.idle())) == ["one"]


def test_idle_reports_while_an_assignment_is_under_way_get_no_second_job(bus: Bus) -> None:
    ann = bus.worker("ann")
    bus.say(ann.idle(), bus.add("one"), bus.add("two"))
    bus.clock.pass_(1)
    assert bus.say(ann.idle()) == []
    assert bus.states() == {"queued": ["two"], "dispatched": ["one"]}


def test_finished_and_idle_in_one_breath_get_one_job(bus: Bus) -> None:
    ann = bus.worker("ann")
    bus.say(ann.idle(), bus.add("one"), bus.add("two"), bus.add("three"))
    bus.say(ann.accepted("one"))
    bus.clock.pass_(1)
    assert ann.was_given(bus.say(ann.finished("one"), ann.idle())) == ["two"]
    bus.clock.pass_(0.1)
    assert bus.say(ann.idle()) == []


def test_a_worker_at_two_queues_may_get_a_job_of_each(bus: Bus) -> None:
    here, there = bus.worker("ann"), bus.worker("ann", "other")
    bus.say(here.idle(), there.idle())
    sent = bus.say(bus.add("one"), bus.add("two", "other"))
    assert sorted(here.was_given(sent)) == ["one", "two"]


def test_an_idle_report_older_than_a_tick_registers_but_pulls_nothing(bus: Bus) -> None:
    ann = bus.worker("ann")
    bus.say(bus.add("one"))
    old = ann.idle()
    bus.clock.pass_(3)
    assert bus.say(old) == []
    assert [item["state"] for item in bus.ask("list_worker_queue")] == ["idle"]
    assert ann.was_given(bus.say(bus.add("two"))) == ["one"]


def test_an_idle_report_from_the_future_prolongs_no_life(bus: Bus) -> None:
    ann = bus.worker("ann")
    bus.say(ann.idle(created_at=stamp(bus.clock.now + 3600 * SECOND)))
    bus.clock.pass_(9)
    assert bus.say(bus.add("one")) == []


def test_a_worker_may_ask_for_a_job_itself(bus: Bus) -> None:
    ann, bob = bus.worker("ann"), bus.worker("bob")
    for topic in ("job_queue/lease_job", "job_queue/request_job"):
        asks = bus.message(topic, {"queue_name": "q"}, service_uuid=bob.uuid)
        assert bus.say(asks) == []
    bus.say(ann.idle())
    asks = bus.message("job_queue/lease_job", {"queue_name": "q"}, service_uuid=bob.uuid)
    assert bob.was_given(bus.say(bus.add("one"), asks)) == ["one"]
    assert ann.was_given(bus.say(bus.add("two"))) == ["two"]


def test_idle_busy_and_progress_are_understood_without_a_worker_in_the_topic(bus: Bus) -> None:
    ann = bus.worker("ann")
    idle = bus.message("job_queue/worker_idle", {"queue_name": "q"}, service_uuid=ann.uuid)
    assert ann.was_given(bus.say(bus.add("one"), idle)) == ["one"]
    for verb, done in (("worker_busy", 0.25), ("worker_progress", 0.5)):
        fields = {"uuid": "one", "queue_name": "q", "progress": done}
        bus.say(bus.message(f"job_queue/{verb}", fields, service_uuid=ann.uuid))
        (item,) = bus.ask("list_progress_queue")
        assert item["progress"] == done


def test_a_job_that_came_in_by_another_door_is_pushed_too(bus: Bus) -> None:
    ann = bus.worker("ann")
    bus.say(ann.idle())
    bus.desk.intake.enqueue_many([Job("q", payload=b'{"to": "ann"}'), Job("q", payload=b"[1]")])
    first, second = "stoker:1", "stoker:2"
    (sent,) = bus.tick()
    known = {"queue_name": "q", "priority": 0, "dispatched_at": stamp(bus.clock.now)}
    assert sent.payload == {"to": "ann", "uuid": first, **known}
    assert bus.say(ann.accepted(first)) == []
    (sent,) = bus.say(ann.finished(first))
    assert sent.payload == {"payload": [1], "uuid": second, **known}
