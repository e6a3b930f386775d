"""Lives in queues that all have limits, of many kinds and within one another: whatever two engines
agree about, no claim may exceed one. Among all settings a job seldom meets any."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stoker.kernel.job import Job
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import parse_rate
from stoker.store import Store
from tests.engines import VirtualClock
from tests.model.ending import EndingLives
from tests.model.lives import QUEUES, SETTINGS, Chooser

OUTER = QUEUES[-1]
LIMITED = tuple(
    msgspec.structs.replace(settings, within=OUTER) for settings in SETTINGS if settings.limited
)
AROUND = (
    QueueSettings(capacity=3),
    QueueSettings(capacity=2, rate=parse_rate("3 per 5s")),
    QueueSettings(rate=parse_rate("4 per 3s, fixed")),
    QueueSettings(capacity=5, rate=parse_rate("1 per s, burst 3"), fair=True),
)


class LimitedLives(EndingLives):
    """Many come, many are let in, and most of them soon end."""

    steps = (
        *("enqueue", "claim", "claim", "claim", "finish_some", "finish_some", "report"),
        *("report_and_claim", "pass_time", "pass_time", "reply", "wait", "configure", "edit"),
    )
    batches: Sequence[int] = (2, 4, 8)
    ends = (1, 4)
    limits: Sequence[int] = (1, 3, 8)

    def __init__(self, chooser: Chooser, clock: VirtualClock, *stores: Store) -> None:
        super().__init__(chooser, clock, *stores)
        for queue in QUEUES:
            self._configure(queue)

    def _draft(self) -> Job:
        draft = super()._draft()
        due_at = self.pick((0, 0, 0, draft.due_at))
        return msgspec.structs.replace(draft, due_at=due_at, unique_key=None, ref=None)

    def configure(self) -> None:
        self._configure(self.pick(QUEUES))

    def _configure(self, queue: str) -> None:
        settings = self.pick(AROUND if queue == OUTER else LIMITED)
        self.both(lambda desk: desk.control.configure(queue, settings))
