"""Lives in queues where nothing but keys decides: many keys, all jobs with one, one queue a claim.

Engines have shorter ways of choosing for just that, which lives of every kind seldom go. Here there
are so many keys that they go them to the end; among tenants, which are few, they also lose them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stoker.kernel.job import WHOLE_WEIGHT, Job
from stoker.kernel.queue import Order, QueueSettings
from stoker.store import Store
from tests.engines import VirtualClock
from tests.model.lives import QUEUES, Chooser, Lives

WHOLE = (WHOLE_WEIGHT,) * 6
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

    steps: Sequence[str] = (
        *("enqueue", "claim", "claim", "report"),
        *("report_and_claim", "pass_time", "control"),
    )
    batches = (1, 4, 16, 48)
    limits = (1, 3, 8, 40)
    weights: Sequence[int] = (*WHOLE, 500, 2000)
    keys: Sequence[str] = KEYS

    def __init__(self, chooser: Chooser, clock: VirtualClock, *stores: Store) -> None:
        super().__init__(chooser, clock, *stores)
        self._ranks = self.pick(((0,), (0,), (-1, 0, 5)))
        for queue in QUEUES:
            self._configure(queue, self.pick(SETTINGS))

    def _draft(self) -> Job:
        weight = self.pick(self.weights)
        facts = {"key": self.pick(self.keys), "weight": weight, "rank": self.pick(self._ranks)}
        return msgspec.structs.replace(super()._draft(), **facts)

    def _queues(self) -> tuple[str, ...]:
        return (self.pick(QUEUES),)

    def _configure(self, queue: str, settings: QueueSettings) -> None:
        self.both(lambda desk: desk.control.configure(queue, settings))


class EvenLives(KeyedLives):
    """Lives of jobs with keys, none of which is heavier than the others."""

    weights = WHOLE


class CrowdedLives(KeyedLives):
    """Lives of many jobs with few keys: lanes are long, and several of each start at once."""

    steps = (*KeyedLives.steps, "enqueue", "control")
    keys = KEYS[:4]
