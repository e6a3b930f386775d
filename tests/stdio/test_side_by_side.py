"""Several processors on one store, and one that is replaced: each hears some of the messages."""

from __future__ import annotations

from random import Random

import pytest

from stoker.desk import Desk
from stoker.kernel.job import State
from stoker.store import Filter, Store
from tests.engines import VirtualClock
from tests.stdio.bus import Bus, Fields, Sent


@pytest.fixture
def left(store: Store, clock: VirtualClock) -> Bus:
    return Bus(Desk(store), clock)


@pytest.fixture
def right(store: Store, clock: VirtualClock) -> Bus:
    return Bus(Desk(store), clock)


def test_each_step_of_a_job_may_be_heard_by_another_processor(left: Bus, right: Bus) -> None:
    ann = left.worker("ann")
    left.say(ann.idle())
    right.say(right.add("one"), right.add("two"))
    assert ann.was_given(left.tick()) == ["one"]
    assert right.say(ann.accepted("one")) == []
    left.say(ann.progress("one", progress=0.5))
    assert right.ask("list_progress_queue") == left.ask("list_progress_queue")
    assert ann.was_given(right.say(ann.finished("one"))) == ["two"]
    assert left.say(ann.finished("two"), ann.idle()) == []
    assert left.states() == right.states() == {}


def test_a_worker_that_both_believe_idle_gets_one_job(left: Bus, right: Bus) -> None:
    ann = left.worker("ann")
    left.say(ann.idle())
    right.say(ann.idle())
    assert ann.was_given(left.say(left.add("one"), left.add("two"))) == ["one"]
    assert right.tick() == []
    assert right.states() == {"queued": ["two"], "dispatched": ["one"]}
    assert ann.was_given(left.say(ann.finished("one"))) == ["two"]


def test_messages_that_everybody_hears_are_heard_once(left: Bus, right: Bus) -> None:
    ann, bob = left.worker("ann"), left.worker("bob")

    def say(*messages: Fields) -> list[Sent]:
        return left.say(*messages) + right.say(*messages)

    given = ann.was_given(say(left.add("one"), left.add("two"), left.add("three"), ann.idle()))
    assert given == ["one"]
    assert say(ann.accepted("one"), ann.progress("one", progress=0.5)) == []
    left.clock.pass_(1)
    sent = say(ann.finished("one"), ann.idle(), bob.idle())
    assert sorted([ann.was_given(sent), bob.was_given(sent)]) == [["three"], ["two"]]


def test_a_worker_is_free_for_all_when_it_has_finished(left: Bus, right: Bus) -> None:
    ann = left.worker("ann")
    left.say(ann.idle(), left.add("one"))
    left.clock.pass_(1)
    assert right.say(ann.finished("one")) == []
    left.say(ann.idle())
    assert ann.was_given(left.say(left.add("two"))) == ["two"]


def test_workers_are_listed_whoever_heard_of_them(left: Bus, right: Bus) -> None:
    ann, bob = left.worker("ann"), right.worker("bob")
    left.say(ann.idle(), left.add("one"))
    right.say(bob.idle())
    states = {item["uuid"]: item["state"] for item in left.ask("list_worker_queue")}
    assert states == {ann.uuid: "busy", bob.uuid: "idle"}
    assert left.ask("list_worker_queue") == right.ask("list_worker_queue")


def test_a_new_processor_goes_on_where_a_dead_one_stopped(
    store: Store, left: Bus, right: Bus
) -> None:
    ann, bob = left.worker("ann"), left.worker("bob")
    left.say(ann.idle(), bob.idle(), *(left.add(f"job {n}") for n in range(3)))
    left.say(ann.accepted("job 0"))
    # From here on the left one is silent.
    right.clock.pass_(1)
    assert right.states() == {
        "queued": ["job 2"],
        "dispatched": ["job 1"],
        "processing": ["job 0"],
    }
    assert right.say(bob.accepted("job 1")) == []
    assert ann.was_given(right.say(ann.finished("job 0"))) == ["job 2"]
    right.say(ann.finished("job 2"), bob.finished("job 1"))
    assert len(store.find(Filter(states=(State.FINISHED,)))) == 3


def test_what_was_given_out_but_never_written_comes_back(left: Bus, right: Bus) -> None:
    ann, bob = left.worker("ann"), left.worker("bob")
    left.say(ann.idle())
    left.say(left.add("one"))  # and it dies before the line is out
    right.clock.pass_(3)
    assert right.say(ann.idle(), bob.idle()) == []
    right.clock.pass_(3)
    right.say(ann.idle(), bob.idle())
    right.clock.pass_(3)
    assert bob.was_given(right.tick()) == ["one"]


@pytest.mark.parametrize("seed", range(3))
def test_two_processors_and_many_workers_do_every_job_once(
    left: Bus, right: Bus, store: Store, seed: int
) -> None:
    dice = Random(seed)
    workers = {worker.uuid: worker for worker in (left.worker(f"w{n}") for n in range(5))}
    doing: dict[str, str] = {}
    done: list[str] = []
    added = 0
    while len(done) < 60:
        left.clock.pass_(dice.random())
        bus = dice.choice([left, right])
        messages = []
        if added < 60:
            messages += [bus.add(f"job {added + n}") for n in range(2)]
            added += 2
        for uuid, worker in workers.items():
            job = doing.get(uuid)
            if job is None:
                messages.append(worker.idle())
            elif dice.random() < 0.3:
                messages += [worker.finished(doing.pop(uuid)), worker.idle()]
                done.append(job)
            else:
                messages.append(worker.progress(job, progress=dice.random()))
        for sent in bus.say(*messages):
            uuid, job = sent.topic.split("/")[3], sent.payload["uuid"]
            assert uuid not in doing, "it has a job already"
            assert job not in done, "it was done before"
            doing[uuid] = job
            bus.say(workers[uuid].accepted(job))
    assert sorted(done) == sorted(f"job {n}" for n in range(60))
    assert len(store.find(Filter(states=(State.FINISHED,)))) == 60
