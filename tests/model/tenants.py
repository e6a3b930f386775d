"""Random lives in queues that nothing but keys share: their places, and their turns.

Engines have short ways for such queues, which lives among all settings hardly ever come upon.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.kernel.job import Job
from stoker.kernel.queue import Order, QueueSettings
from stoker.store import Store
from tests.engines import VirtualClock
from tests.model.ending import EndingLives
from tests.model.lives import BRIEF, Chooser, Lives

RANKLESS = "a/1"
"""Where only those that come later have other ranks than 0."""
QUEUES = (RANKLESS, "b")
TENANTS = ("x", "y", "z", "v", "w")
SETTINGS = (
    QueueSettings(key_capacity=1),
    QueueSettings(key_capacity=2, retention=BRIEF),
    QueueSettings(key_capacity=3, keys={"x": 1, "y": 0.5}, order=Order.TIME_RANK),
    QueueSettings(keys={"z": 2}),
    QueueSettings(fair=True),
    QueueSettings(fair=True, order=Order.TIME_RANK, retention=BRIEF),
    QueueSettings(fair=True, key_capacity=2, turns={"x": 2, "y": 0.5}),
)
SELDOM = 60


class TenantLives(EndingLives):
    """Most jobs have a key and a weight; a few have not."""

    steps = (*Lives.steps, *["enqueue", "claim", "report_and_claim", "finish_some"] * 6)
    batches = (2, 4, 8)
    ends = (2, 4)

    def __init__(self, chooser: Chooser, clock: VirtualClock, *stores: Store) -> None:
        super().__init__(chooser, clock, *stores)
        for queue in QUEUES:
            self._configure(queue)

    def _draft(self) -> Job:
        draft = super()._draft()
        queue = self.pick(QUEUES)
        usual: dict[str, Any] = {
            "key": self.pick(TENANTS),
            "weight": self.pick((1000, 1000, 1000, 500, 2000)),
        }
        if queue == RANKLESS and not draft.due_at:
            usual["rank"] = 0
        usual.pop(self.pick((*[""] * SELDOM, "key", "weight", "rank")), None)
        return msgspec.structs.replace(draft, queue=queue, **usual)

    def _queues(self) -> tuple[str, ...]:
        return self.pick((*((queue,) for queue in QUEUES), QUEUES))

    def configure(self) -> None:
        self._configure(self.pick(QUEUES))

    def _configure(self, queue: str) -> None:
        settings = self.pick(SETTINGS)
        self.both(lambda desk: desk.control.configure(queue, settings))
