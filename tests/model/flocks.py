"""Lives of jobs that come in flocks: many at once that differ in their payloads alone.

Engines take such jobs in by a short way, and may let them stand in line as one until something
happens to one of them.
"""

from __future__ import annotations

import msgspec

from stoker.kernel.queue import QueueSettings
from tests.model.lives import PLAIN_SETTINGS, SETTINGS, Lives

RARE = 12


class FlockLives(Lives):
    """Flocks and single jobs, mostly in queues without limits, and all that can happen to them."""

    steps = (*Lives.steps, *["flock", "claim"] * 12, *["edit", "control", "delete"] * 2)
    limits = (1, 2, 5, 30)

    def flock(self) -> None:
        payloads = [b"%d" % number for number in range(self.pick((1, 3, 4, 9)))]
        draft = msgspec.structs.replace(self._draft(), unique_key=None, ref=None)
        ids = self.both(lambda desk: [*desk.intake.enqueue_copies(draft, payloads)])
        self.seen["enqueued"] += len(ids)

    def _settings(self) -> QueueSettings:
        return self.pick(self.pick((*[PLAIN_SETTINGS] * RARE, SETTINGS)))
