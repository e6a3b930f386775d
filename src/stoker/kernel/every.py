"""Repeat by interval: `every 5m`, counted from the scheduled times, so that the phase is kept."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stoker.errors import BadInput
from stoker.kernel import duration
from stoker.kernel.ticks import USUAL, Ticking, join_options, split_options


class Grid(NamedTuple):
    """Ticks at equal distances from an anchor."""

    anchor: int
    interval: int

    def after(self, at: int) -> int:
        """The first tick after a moment."""
        return at + self.interval - (at - self.anchor) % self.interval

    def latest(self, low: int, high: int) -> int | None:
        """The last tick in (low, high], if there is one."""
        tick = high - (high - self.anchor) % self.interval
        return tick if tick > low else None


class Every(Ticking, frozen=True):
    """A tick each `interval` microseconds, whatever the clocks on the walls do."""

    interval: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not duration.is_time(self.interval, least=1):
            raise BadInput(
                '"every" needs a duration from a microsecond to 1,000 years, such as "every 5m"'
            )

    @classmethod
    def parse(cls, text: str) -> Every:
        """Read what follows the word `every`: a duration and options."""
        head, options = split_options(text, USUAL)
        return cls(duration.micros(head), **options)

    def __str__(self) -> str:
        head = f"every {duration.text(self.interval)}"
        return join_options(head, msgspec.structs.asdict(self), USUAL)

    def first_due(self, *, now: int) -> int:
        """One interval from now."""
        return now + self.interval

    def next_due(self, *, scheduled: int, started: int | None, finished: int) -> int:
        """The tick for the run after the one described."""
        grid = Grid(scheduled, self.interval)
        return self.due_on(grid, scheduled=scheduled, started=started, finished=finished)
