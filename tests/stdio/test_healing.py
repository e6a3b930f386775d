"""Silence, lost messages and dead workers: everything heals by itself, within twelve seconds."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from tests.engines import VirtualClock
from tests.stdio.bus import Bus, Fields, Sent


def test_a_job_that_is_not_accepted_goes_to_another_worker(bus: Bus) -> None:
    ann, bob = bus.worker("ann"), bus.worker("bob")
    assert ann.was_given(bus.say(ann.idle(), bus.add("one"))) == ["one"]
    bus.clock.pass_(8.9)
    assert bus.say(bob.idle(), bus.message("tick", {})) == []
    bus.clock.pass_(0.1)
    assert bob.was_given(bus.tick()) == ["one"]


def test_any_message_heals_what_is_overdue(bus: Bus) -> None:
    ann, bob = bus.worker("ann"), bus.worker("bob")
    bus.say(ann.idle(), bus.add("one"))
    bus.clock.pass_(9)
    assert bob.was_given(bus.say(bob.idle())) == ["one"]


def test_jobs_that_come_back_come_first_in_the_order_they_were_given(bus: Bus) -> None:
    workers = [bus.worker(name) for name in ("ann", "bob")]
    bus.say(*(worker.idle() for worker in workers), bus.add("one"), bus.add("two"))
    bus.say(bus.add("three"), bus.add("urgent", priority=1))
    bus.clock.pass_(9)
    bus.tick()
    assert bus.states() == {"queued": ["urgent", "one", "two", "three"]}


def test_the_job_of_a_worker_that_died_at_work_comes_back(bus: Bus) -> None:
    ann, bob = bus.worker("ann"), bus.worker("bob")
    bus.say(ann.idle(), bus.add("one"))
    bus.say(ann.accepted("one"))
    bus.clock.pass_(3)
    bus.say(ann.progress("one", progress=0.9))
    bus.clock.pass_(8.9)
    assert bus.say(bob.idle()) == []
    bus.clock.pass_(0.1)
    assert bob.was_given(bus.tick()) == ["one"]
    bus.say(bob.accepted("one"))
    assert [item["progress"] for item in bus.ask("list_progress_queue")] == [0.0]


def test_a_worker_that_reports_once_a_tick_keeps_its_job_for_as_long_as_it_takes(bus: Bus) -> None:
    ann, bob = bus.worker("ann"), bus.worker("bob")
    bus.say(ann.idle(), bus.add("one"))
    bus.say(ann.accepted("one"))
    for step in range(100):
        bus.clock.pass_(3)
        assert bus.say(ann.progress("one", progress=step / 100), bob.idle()) == []
        assert bus.tick() == []
    assert bus.states() == {"processing": ["one"]}


def test_a_job_is_given_out_again_as_often_as_it_takes(bus: Bus) -> None:
    bus.say(bus.add("one"))
    for number in range(10):
        worker = bus.worker(f"w{number}")
        assert worker.was_given(bus.say(worker.idle())) == ["one"]
        bus.clock.pass_(9)
        bus.tick()
    assert bus.states() == {"queued": ["one"]}


def test_the_late_word_of_a_worker_that_lost_its_job_changes_nothing(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    ann, bob = bus.worker("ann"), bus.worker("bob")
    bus.say(ann.idle(), bus.add("one"), bus.add("two"))
    bus.clock.pass_(9)
    assert bob.was_given(bus.say(bob.idle())) == ["one"]
    assert bus.say(ann.accepted("one")) == []
    assert bus.say(ann.finished("one")) == []
    assert bus.states() == {"queued": ["two"], "dispatched": ["one"]}
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert bob.was_given(bus.say(bob.finished("one"))) == ["two"]


def test_a_silent_worker_is_forgotten_after_three_ticks(bus: Bus) -> None:
    ann, bob = bus.worker("ann"), bus.worker("bob")
    bus.say(ann.idle(), bob.idle())
    bus.clock.pass_(3)
    bus.say(bob.idle())
    bus.clock.pass_(6)
    bus.tick()
    workers = bus.ask("list_worker_queue", later_than="-inf")
    assert [item["uuid"] for item in workers] == [bob.uuid]
    sent = bus.say(bus.add("one"), bus.add("two"))
    assert (ann.was_given(sent), bob.was_given(sent)) == ([], ["one"])


def test_a_worker_that_reports_once_a_tick_is_remembered(bus: Bus) -> None:
    ann = bus.worker("ann")
    for _ in range(20):
        bus.say(ann.idle())
        bus.pass_(3)
    assert [item["state"] for item in bus.ask("list_worker_queue")] == ["idle"]


class Dutiful:
    """A worker that does as workers do, on a bus that loses one message of a kind."""

    def __init__(self, bus: Bus, lost: str) -> None:
        self.lost: str | None = lost
        self._bus = bus
        self._worker = bus.worker("ann")
        self._job = ""
        self._ticks_left = 0

    def send(self, kind: str, message: Fields) -> None:
        if kind == self.lost:
            self.lost = None
        else:
            self.hear(self._bus.say(message))

    def hear(self, sent: list[Sent]) -> None:
        for uuid in self._worker.was_given(sent):
            if self.lost == "assignment":
                self.lost = None
            elif not self._job:
                self._job, self._ticks_left = uuid, 3
                self.send("accepted", self._worker.accepted(uuid))

    def tick(self) -> None:
        self.hear(self._bus.pass_(3))
        self._ticks_left -= 1
        if self._job and self._ticks_left == 0:
            done, self._job = self._job, ""
            self.send("finished", self._worker.finished(done))
        if self._job:
            self.send("progress", self._worker.progress(self._job, progress=0.5))
        else:
            self.send("idle", self._worker.idle())


@pytest.mark.parametrize("lost", ["add", "idle", "assignment", "accepted", "progress", "finished"])
def test_whichever_message_is_lost_the_job_completes(bus: Bus, lost: str) -> None:
    ann = Dutiful(bus, lost)
    for _ in range(2):  # its creator is not sure that it was heard
        ann.send("add", bus.add("one"))
    for _ in range(20):
        ann.tick()
    assert ann.lost is None
    assert bus.states() == {}


def test_the_three_times_can_be_set(desk: Desk, clock: VirtualClock) -> None:
    bus = Bus(desk, clock, tick_interval=1000, worker_expiry=5000, max_lease=2000)
    ann, bob = bus.worker("ann"), bus.worker("bob")
    bus.say(bob.idle(), bus.add("one"))
    bus.clock.pass_(1.9)
    assert bus.say(ann.idle(), bus.message("tick", {})) == []
    bus.clock.pass_(0.1)
    assert ann.was_given(bus.tick()) == ["one"]
    bus.clock.pass_(2.9)
    assert [item["uuid"] for item in bus.ask("list_worker_queue")] == [bob.uuid, ann.uuid]
    bus.clock.pass_(0.1)
    assert [item["uuid"] for item in bus.ask("list_worker_queue")] == [ann.uuid]


def test_three_ticks_are_the_default_of_both_periods(bus: Bus) -> None:
    settings = bus.settings
    assert (settings.tick, settings.expiry, settings.lease) == (3_000_000, 9_000_000, 9_000_000)
