"""The due jobs of a queue in its order, a page at a time, whatever its limits say."""

from __future__ import annotations

import random

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State, place
from stoker.kernel.queue import Order, QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.store import Filter, InLine, Store
from stoker.store.choosing import ordering
from tests.engines import VirtualClock
from tests.store.conformance.acts import MINUTE, put

SETTINGS = {
    "plain": QueueSettings(),
    "by time": QueueSettings(order=Order.TIME_RANK),
    "keys": QueueSettings(key_capacity=1),
    "keys by time": QueueSettings(key_capacity=1, order=Order.TIME_RANK),
    "tasks": QueueSettings(tasks={"n": 1}, key_rate=parse_rate("1/m")),
    "fair": QueueSettings(fair=True, turns={"x": 3}),
    "ageing": QueueSettings(ageing=MINUTE),
    "fair and ageing": QueueSettings(ageing=MINUTE, fair=True, tasks={"n": 2}),
}


def _draft(clock: VirtualClock, dice: random.Random) -> Job:
    return Job(
        "q",
        dice.choice(("", "n")),
        rank=dice.choice((-1, 0, 0, 5)),
        due_at=clock.now + dice.choice((-2, -1, -1, 0, 5, 60)) * MINUTE,
        weight=dice.choice((1000, 1000, 0)),
        key=dice.choice((None, "x", "x", "y")),
    )


def _expected(store: Store, settings: QueueSettings) -> list[Job]:
    queued = store.find(Filter(states=(State.QUEUED,), queue="q", limit=1000))
    due = [job for job in queued if job.due_at <= store.now()]
    return sorted(due, key=ordering(settings))


def _told(store: Store, limit: int) -> list[Job]:
    found: list[Job] = []
    while page := store.find(InLine("q", place(found[-1]) if found else None, limit)):
        assert len(page) <= limit
        found += page
    return found


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_due_jobs_are_found_in_the_order_of_their_queue(
    desk: Desk, store: Store, clock: VirtualClock, settings: QueueSettings
) -> None:
    dice = random.Random(7)
    desk.control.configure("q", settings)
    put(desk, "another")
    assert store.find(InLine("q")) == store.find(InLine("unknown")) == []
    for _ in range(6):
        desk.intake.enqueue_many([_draft(clock, dice) for _ in range(20)])
        desk.intake.enqueue_many([_draft(clock, dice)] * 9)
        desk.dispatch.claim(["q"], 7)
        expected = _expected(store, settings)
        for limit in (7, 1000):
            assert _told(store, limit) == expected
        clock.pass_(90)


def test_jobs_that_are_not_due_hide_nobody(desk: Desk, store: Store, clock: VirtualClock) -> None:
    later = [Job("q", rank=-5, due_at=clock.now + MINUTE) for _ in range(300)]
    desk.intake.enqueue_many(later)
    jobs = [put(desk, rank=rank) for rank in (3, -7, 0)]
    assert [job.id for job in store.find(InLine("q", limit=3))] == [jobs[1], jobs[2], jobs[0]]
