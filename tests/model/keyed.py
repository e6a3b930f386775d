"""Lives in queues where nothing but keys decides: many keys, all jobs with one, one queue a claim.

Engines have shorter ways of choosing for just that, which lives of every kind seldom go.
"""

from __future__ import annotations

from functools import partial

import msgspec

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.kernel.queue import Order, QueueSettings
from stoker.store.memory import MemoryStore
from tests.engines import ENGINES_AND_LIBRARIES, VirtualClock
from tests.model.lives import QUEUES, Lives, SeededChooser
from tests.model.walk import recount

KEYS = tuple(f"key {number}" for number in range(20))
SETTINGS = (
    QueueSettings(key_capacity=1),
    QueueSettings(key_capacity=4, keys={"key 1": 1, "key 2": 20}),
    QueueSettings(keys={"key 3": 1}),
    QueueSettings(key_capacity=3, order=Order.TIME_RANK),
    QueueSettings(fair=True),
    QueueSettings(fair=True, key_capacity=2),
    QueueSettings(fair=True, turns={"key 1": 3, "key 2": 0.5}, order=Order.TIME_RANK),
)


class KeyedLives(Lives):
    """Lives of jobs with keys."""

    batches = (1, 4, 16, 48)
    limits = (1, 3, 8, 40)

    def _draft(self) -> Job:
        weight = self.pick((1000, 1000, 1000, 1000, 1000, 1000, 500, 2000))
        facts = {"key": self.pick(KEYS), "weight": weight, "rank": self.pick(self._ranks)}
        return msgspec.structs.replace(super()._draft(), **facts)

    def _queues(self) -> tuple[str, ...]:
        return (self.pick(QUEUES),)

    def begin(self) -> None:
        """Settings for all queues, and ranks for all jobs: one, or several."""
        self._ranks = self.pick(((0,), (0,), (-1, 0, 5)))
        for queue in QUEUES:
            self.both(partial(_configure, queue, self.pick(SETTINGS)))


def _configure(queue: str, settings: QueueSettings, desk: Desk) -> None:
    desk.control.configure(queue, settings)


STEPS = (
    *(KeyedLives.enqueue, KeyedLives.claim, KeyedLives.claim, KeyedLives.report),
    *(KeyedLives.report_and_claim, KeyedLives.pass_time, KeyedLives.control),
)


def walk_by_keys(engine: str, seed: int, steps: int) -> None:
    """One life story."""
    clock = VirtualClock()
    with ENGINES_AND_LIBRARIES[engine](clock) as store:
        lives = KeyedLives(SeededChooser(seed), clock, MemoryStore(clock), store)
        lives.begin()
        for _ in range(steps):
            lives.pick(STEPS)(lives)
            lives.compare()
        recount(store)
