"""Rounds: how a worker comes to do the chores without being a burden when there are none.

It looks often, which takes a few reads, and asks for the turn when there is something to do. Now
and then it does so for no reason: whether a store wants tidying cannot be seen from outside.
"""

from __future__ import annotations

from stoker.desk.clerk import Clerk
from stoker.store import Adrift, Forgettable, Lost
from stoker.watch import run_chores

_SHORTEST_TURN = 2_000_000
_FOR_NO_REASON = 10_000_000


class Rounds:
    """One worker's rounds, which it means to make every so many microseconds."""

    def __init__(self, clerk: Clerk, owner: str, *, every: int) -> None:
        self._clerk = clerk
        self._owner = owner
        self._turn = max(3 * every, _SHORTEST_TURN)
        self._anyway_at = 0

    def make(self) -> dict[str, int] | None:
        """Make a round; None if nothing was to do, or somebody else is at it."""
        now = self._clerk.store.now()
        if now < self._anyway_at and not self._is_needed(now):
            return None
        self._anyway_at = now + _FOR_NO_REASON
        return run_chores(self._clerk, self._owner, turn=self._turn, keep_turn=True)

    def _is_needed(self, now: int) -> bool:
        store = self._clerk.store
        if any(store.find(kind(limit=1)) for kind in (Lost, Adrift, Forgettable)):
            return True
        return any(session.expires_at <= now for session in store.sessions())
