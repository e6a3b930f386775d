"""Time that passes only when it is told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from stoker.errors import BadInput
from stoker.kernel.duration import micros
from stoker.store.clock import wall_clock
from stoker.worker.context import Duration


class VirtualClock:
    """Time that passes only when it is told to.

    >>> clock = VirtualClock(datetime(2030, 1, 1, tzinfo=UTC))
    >>> clock.advance("1h30m")
    >>> clock.now.isoformat()
    '2030-01-01T01:30:00+00:00'
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._micros = wall_clock() if start is None else _micros_of(start)

    def __call__(self) -> int:
        """The time it shows, as stores count it: in UTC microseconds."""
        return self._micros

    @property
    def now(self) -> datetime:
        """The time it shows."""
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=self._micros)

    def advance(self, by: Duration) -> None:
        """Let time pass: "10m", a timedelta or a number of seconds. Nothing runs until `drain`."""
        self._micros += micros(by)

    def move_to(self, moment: datetime) -> None:
        """Let time pass until then."""
        target = _micros_of(moment)
        if target < self._micros:
            raise BadInput(f"the clock shows {self.now} and cannot go back to {moment}")
        self._micros = target


def _micros_of(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise BadInput("a moment needs a time zone, e.g. datetime(2030, 1, 1, tzinfo=UTC)")
    return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)
