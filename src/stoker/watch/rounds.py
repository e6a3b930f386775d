"""Rounds: how a worker comes to do the chores without being a burden when there are none.

It asks for the turn when there is something to do, which one question to the store tells; a worker
hears it with its heartbeat. Now and then it tidies up for no reason: whether a store wants that
cannot be seen from outside.
"""

from __future__ import annotations

from stoker.desk.clerk import Clerk
from stoker.watch import run_chores, tidy_up

_SHORTEST_TURN = 2_000_000
_FOR_NO_REASON = 60_000_000


class Rounds:
    """One worker's rounds, which it means to make every so many microseconds."""

    def __init__(self, clerk: Clerk, owner: str, *, every: int) -> None:
        self._clerk = clerk
        self._owner = owner
        self._turn = max(3 * every, _SHORTEST_TURN)
        self._tidy_at = 0

    def make(self, *, troubled: bool | None = None) -> dict[str, int] | None:
        """Make a round; None if nothing was to do, or somebody else is at it.

        Who knows already whether the store is `troubled` spares us the question.
        """
        now = self._clerk.store.now()
        if self._clerk.store.troubled() if troubled is None else troubled:
            return run_chores(self._clerk, self._owner, turn=self._turn, keep_turn=True)
        if now >= self._tidy_at:
            self._tidy_at = now + _FOR_NO_REASON
            tidy_up(self._clerk, self._owner, turn=self._turn)
        return None
