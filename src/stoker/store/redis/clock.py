"""The server's clock, as far as it can be known from here.

Every answer tells the server's time. It was told after the question was sent and before the answer
came, so the true difference to our own clock lies between two bounds; the estimate is moved into
them and no further. It begins at the lower one: `now` is never ahead of the server, nor behind
what the server has told us.
"""

from __future__ import annotations

import time

from stoker.store.clock import Clock

_KNOWN_FOR = 1_000_000


def _own_clock() -> int:
    # One that nobody sets: what matters is the difference.
    return time.monotonic_ns() // 1000


class ServerClock:
    """Tells the server's time in microseconds, or that of a clock that is given instead."""

    def __init__(self, given: Clock | None) -> None:
        self._given = given
        self._ahead: int | None = None
        self._told_at = -_KNOWN_FOR

    def __call__(self) -> int:
        if self._given is not None:
            return self._given()
        return _own_clock() + (self._ahead or 0)

    def asked(self) -> int:
        """A question goes out now."""
        return _own_clock()

    def told(self, moment: int, asked: int) -> None:
        """The server gave this moment in the answer to what was asked then."""
        self._told_at = _own_clock()
        least, most = moment - self._told_at, moment - asked
        if self._ahead is None or not least <= self._ahead <= most:
            self._ahead = least

    @property
    def is_known(self) -> bool:
        """Has the server told it within the last second? Clocks drift, and are set."""
        return _own_clock() < self._told_at + _KNOWN_FOR

    @property
    def argument(self) -> bytes:
        """What functions are told of the moment: nothing, unless a clock was given."""
        return b"" if self._given is None else b"%d" % self._given()
