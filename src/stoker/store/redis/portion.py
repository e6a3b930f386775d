"""How many jobs to claim at once, so that the answer comes in one piece.

A server writes 64 KB to a client and then sees to the next one before it writes more. Of a longer
answer the end would come only after somebody else's call had been served: two boats of one worker
would wait for each other all the time.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.store import MOST_AT_ONCE

_ONE_PIECE = 62_000
"""Of 64 KB: some room is left for what else an answer says."""
_AROUND_A_BODY = 14
"""A job's number, and how the length of its body is told."""
_LEAST = 250
"""So many are worth a longer answer."""
_TELLING = 32
"""Bodies of which the mean says something."""


class Portion:
    """Learns from answers how long jobs are."""

    def __init__(self) -> None:
        self.jobs = MOST_AT_ONCE

    def learn(self, bodies: Sequence[bytes]) -> None:
        """An answer brought these."""
        if len(bodies) >= _TELLING:
            length = sum(map(len, bodies)) / len(bodies) + _AROUND_A_BODY
            self.jobs = max(_LEAST, min(MOST_AT_ONCE, int(_ONE_PIECE / length)))
