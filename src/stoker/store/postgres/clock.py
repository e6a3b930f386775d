"""The server's clock, read without asking the server.

Leases and due times go by the server's clock alone, so that clocks of other machines may be wrong
as they like. What it says is reckoned from its last answers: a little late by the time an answer
takes, and never early, since a job that is due for us must be due for the server too.
"""

from __future__ import annotations

import time
from typing import Protocol

from stoker.store.clock import Clock

_KEPT = 5_000_000


class Timepiece(Protocol):
    """The clock of a store."""

    def __call__(self) -> int:
        """Now, in UTC microseconds."""

    def given(self) -> int | None:
        """The moment that statements are to go by; None for the server's own."""

    def hear(self, moment: int) -> None:
        """The server said that it was so late, a moment ago."""


class GivenClock:
    """A clock that was given to the store, for tests: all statements go by it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(self) -> int:
        return self._clock()

    def given(self) -> int | None:
        return self._clock()

    def hear(self, moment: int) -> None:
        """It came from us."""


class ServerClock:
    """Knows how far the server's clock is ahead of this process's steady one."""

    def __init__(self) -> None:
        self._ahead = time.time_ns() // 1000 - _steady()
        self._heard_at = -_KEPT

    def __call__(self) -> int:
        return _steady() + self._ahead

    def given(self) -> int | None:
        return None

    def hear(self, moment: int) -> None:
        """Of several answers the quickest tells it best; after a while another is taken, since
        clocks drift and are set.
        """
        steady = _steady()
        ahead = moment - steady
        if ahead >= self._ahead or steady >= self._heard_at + _KEPT:
            self._ahead, self._heard_at = ahead, steady


def _steady() -> int:
    return time.monotonic_ns() // 1000
