"""How queues are claimed from: in one call, in one call that goes by their lanes, or with a walk.

What is known was learned from answers. It may be out of date: then the next answer says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_WALKS = 50


class Ways:
    """What this process has learned. A queue that proved hard to tell by its lanes is walked for a
    while, for it would be asked in vain more often than not."""

    def __init__(self, walks: int = _WALKS) -> None:
        self._walks = walks
        self._walked: set[str] = set()
        self._laned: set[str] = set()
        self._left: dict[str, int] = {}

    def need_a_walk(self, queues: Iterable[str]) -> bool:
        """Can nothing be had of one of these queues without a walk?"""
        return not self._walked.isdisjoint(queues)

    def go_by_lanes(self, queues: Sequence[str]) -> bool:
        """Is it one queue that is asked by its lanes?"""
        return len(queues) == 1 and queues[0] in self._laned

    def learn(self, queues: Sequence[str], *, kept: bool, laned: bool) -> None:
        """A claim was told: nothing without a walk, or, these are queues to be asked by lanes."""
        walks_left = self._walks_left(queues, in_vain=kept and self.go_by_lanes(queues))
        by_lanes = laned and not walks_left
        _note(self._laned, queues, by_lanes)
        _note(self._walked, queues, (kept and not by_lanes) or walks_left > 0)

    def _walks_left(self, queues: Sequence[str], *, in_vain: bool) -> int:
        if len(queues) != 1:
            return 0
        (name,) = queues
        left = self._walks if in_vain else max(0, self._left.pop(name, 0) - 1)
        if left:
            self._left[name] = left
        return left


def _note(these: set[str], queues: Iterable[str], inside: bool) -> None:
    if inside:
        these.update(queues)
    else:
        these.difference_update(queues)
