"""Turns: how the keys of a fair queue share it.

Every key has a number, how far it has been served; the next job comes from the key with the lowest,
and puts it forward by its weight, divided by the turns the key has. The queue has a number as well,
that of the key served last: nobody is further back. So who comes anew, or could not start for a
while, has the next turn and not all those it missed; and who leaves and comes back has no more
turns than if it had stayed. Jobs without a key are one party among the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stoker.kernel.queue import QueueSettings

Party = str | None
"""A key, or None for the jobs without one."""

BEFORE_ALL = -1
"""The turn of jobs that neither count nor wait."""


class Turns:
    """The order of turns in one queue during one claim."""

    def __init__(
        self, settings: QueueSettings, clock: int, reached: Callable[[Party], int]
    ) -> None:
        self._settings = settings
        self._reached = reached
        self._moved: dict[Party, int] = {}
        self.clock = clock
        """How far the key has been served whose turn it was last."""

    def of(self, party: Party, weight: int) -> int:
        """When it is the turn of a party's job of this weight: the lowest is next."""
        if weight == 0:
            return BEFORE_ALL
        reached = self._moved[party] if party in self._moved else self._reached(party)
        return max(reached, self.clock)

    def taken(self, party: Party, weight: int) -> None:
        """The turn is a party's, for a job of this weight."""
        if weight:
            self.clock = self.of(party, weight)
            self._moved[party] = self.clock + self._settings.turn_length(party, weight)

    def moved(self) -> Iterator[tuple[Party, int]]:
        """How far those have been served who had a turn."""
        yield from self._moved.items()
