"""How fast jobs are done by a worker, and hence how many it fetches ahead."""

from __future__ import annotations

import time

AHEAD_SECONDS = 0.05
_PACE_SECONDS = 0.002
_ENOUGH = 10
"""Jobs that tell a pace where they were all there was, however short it took."""
_SHORTEST = 0.0001
_MOST_AHEAD = 1000


class Pace:
    """How fast jobs are done here, and hence how many to have at hand.

    A faster pace is believed at once, a slower one bit by bit: too many jobs in hand are given
    back when it turns out, too few keep the crews waiting. While there was nothing to do nobody
    was slow: else a worker that comes upon a full queue would ask for few jobs for long.
    """

    def __init__(self) -> None:
        self._rate = 0.0
        self._since = time.monotonic()
        self._counted = 0
        self._idle = 0.0

    def count(self, done: int, idle: float = 0.0) -> None:
        """So many more were done, and for so long there was nothing to do."""
        self._counted += done
        self._idle += idle
        now = time.monotonic()
        # A long rest counts: whoever comes after it may be of another kind.
        passed = now - self._since - min(self._idle, AHEAD_SECONDS)
        if passed > _PACE_SECONDS or (self._idle and self._counted >= _ENOUGH):
            rate = self._counted / max(passed, _SHORTEST)
            weight = 1.0 if rate > self._rate else passed / (passed + AHEAD_SECONDS)
            self._rate += (rate - self._rate) * weight
            self._since, self._counted, self._idle = now, 0, 0.0

    def ahead(self, idle: float = 0.0) -> int:
        """How many to have at hand beyond those that run."""
        self.count(0, idle)  # a pause slows it down
        return min(_MOST_AHEAD, int(self._rate * AHEAD_SECONDS))
