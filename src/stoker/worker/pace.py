"""How fast jobs are done by a worker, and hence how many it fetches ahead."""

from __future__ import annotations

import time

AHEAD_SECONDS = 0.05
_PACE_SECONDS = 0.002
_MOST_AHEAD = 1000


class Pace:
    """How fast jobs are done here, and hence how many to have at hand.

    A faster pace is believed at once, a slower one bit by bit: too many jobs in hand are given
    back when it turns out, too few keep the crews waiting.
    """

    def __init__(self) -> None:
        self._rate = 0.0
        self._since = time.monotonic()
        self._counted = 0

    def count(self, done: int) -> None:
        """So many more were done."""
        self._counted += done
        now = time.monotonic()
        passed = now - self._since
        if passed > _PACE_SECONDS:
            rate = self._counted / passed
            weight = 1.0 if rate > self._rate else passed / (passed + AHEAD_SECONDS)
            self._rate += (rate - self._rate) * weight
            self._since, self._counted = now, 0

    def ahead(self) -> int:
        """How many to have at hand beyond those that run."""
        self.count(0)  # a pause slows it down
        return min(_MOST_AHEAD, int(self._rate * AHEAD_SECONDS))
