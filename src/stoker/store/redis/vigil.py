"""Waiting awake for an answer that comes sooner than anybody could fall asleep.

To put a thread to sleep and to wake it takes the system longer than a server nearby needs for one
short call. Where the answer takes longer, because the server is far away or busy, a vigil would
only heat the room: then it is left off, and tried again now and then.
"""

from __future__ import annotations

import os

LONGEST = 150e-6
"""Seconds."""
_MOST_LEFT_OFF = 63


def _has_company() -> bool:
    """Whoever has the only processor must not keep the server from using it."""
    return len(os.sched_getaffinity(0)) > 1 if hasattr(os, "sched_getaffinity") else True


class Vigil:
    """Remembers for one connection whether it was worth it.

    >>> vigil = Vigil(possible=True)
    >>> for _ in range(3):
    ...     vigil.ended(in_vain=True)
    >>> [vigil.is_worth_it() for _ in range(8)]
    [False, False, False, False, False, False, False, True]
    """

    def __init__(self, *, possible: bool | None = None) -> None:
        self._possible = _has_company() if possible is None else possible
        self._pause = 0
        """For how many calls it is left off after the next one in vain."""
        self._left = 0

    def is_worth_it(self) -> bool:
        """Is the next answer to be waited for awake?"""
        if self._left:
            self._left -= 1
            return False
        return self._possible

    def ended(self, *, in_vain: bool) -> None:
        """It was waited for, and came in time or not."""
        self._pause = min(2 * self._pause + 1, _MOST_LEFT_OFF) if in_vain else 0
        self._left = self._pause
