"""Lives of jobs that all have keys, and most of them the weight of one, in queues where nothing but
the places and turns of keys decides. Engines may have a short way for those, and other lives, in
which somebody is always without a key, do not get there.
"""

from __future__ import annotations

import msgspec

from stoker.kernel.job import WHOLE_WEIGHT, Job
from stoker.kernel.queue import Order, QueueSettings
from stoker.store import Store
from tests.engines import VirtualClock
from tests.model.lives import QUEUES, Chooser, Lives

SETTINGS = (
    QueueSettings(key_capacity=1),
    QueueSettings(key_capacity=2),
    QueueSettings(key_capacity=3, order=Order.TIME_RANK),
    QueueSettings(fair=True),
    QueueSettings(fair=True, order=Order.TIME_RANK),
    QueueSettings(fair=True, key_capacity=2),
)
WEIGHTS = (*[WHOLE_WEIGHT] * 30, 2 * WHOLE_WEIGHT)
RANKS = (*[0] * 12, -1)


class KeyedLives(Lives):
    """Two desks on which nobody is without a key."""

    def __init__(self, chooser: Chooser, clock: VirtualClock, *stores: Store) -> None:
        super().__init__(chooser, clock, *stores)
        for queue in QUEUES:
            self._limit(queue, self._settings())

    def _limit(self, queue: str, settings: QueueSettings) -> None:
        self.both(lambda desk: desk.control.configure(queue, settings))

    def _settings(self) -> QueueSettings:
        return self.pick(SETTINGS)

    def _queues(self) -> tuple[str, ...]:
        return (self.pick(QUEUES),)

    def _draft(self) -> Job:
        return msgspec.structs.replace(
            super()._draft(),
            key=self.pick(("v", "w", "x", "y", "z")),
            weight=self.pick(WEIGHTS),
            rank=self.pick(RANKS),
        )
