"""Jobs are pushed to idle workers as far as limits and rates let them start, and no further."""

from __future__ import annotations

from typing import Any

from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from tests.stdio.bus import Bus


def limit(bus: Bus, queue: str, **settings: Any) -> None:
    bus.desk.control.configure(queue, QueueSettings(**settings))


def test_no_more_workers_get_a_job_than_there_are_places(bus: Bus) -> None:
    limit(bus, "q", capacity=1)
    ann, bob = bus.worker("ann"), bus.worker("bob")
    bus.say(ann.idle(), bob.idle())
    sent = bus.say(bus.add("one"), bus.add("two"))
    assert (ann.was_given(sent), bob.was_given(sent)) == (["one"], [])
    sent = bus.say(ann.finished("one"))
    assert ann.was_given(sent) + bob.was_given(sent) == ["two"]


def test_two_queues_share_the_places_of_the_one_that_they_are_within(bus: Bus) -> None:
    limit(bus, "outer", capacity=1)
    limit(bus, "q", within="outer")
    limit(bus, "p", within="outer")
    ann, bob = bus.worker("ann"), bus.worker("bob", "p")
    assert ann.was_given(bus.say(ann.idle(), bob.idle(), bus.add("one"))) == ["one"]
    assert bob.was_given(bus.say(bus.add("two", "p"))) == []
    bus.say(ann.finished("one"))
    assert bob.was_given(bus.tick()) == ["two"]


def test_what_is_over_a_rate_is_pushed_when_it_opens(bus: Bus) -> None:
    limit(bus, "q", rate=parse_rate("1 per 4s, burst 1"))
    ann = bus.worker("ann")
    sent = bus.say(ann.idle(), bus.add("one"), bus.add("two"))
    assert ann.was_given(sent) == ["one"]
    assert ann.was_given(bus.say(ann.finished("one"))) == []
    assert ann.was_given(bus.pass_(3.9)) == []
    assert ann.was_given(bus.pass_(0.2)) == ["two"]
