"""Repeat by cron: `cron 0 5 * * mon-fri in Europe/Berlin`.

Five fields, or six with the seconds first, are matched against the wall clock of a zone. Where
that clock jumps, the hour field decides. An hour written with a star (`*`, `*/2`) follows real
time: it runs whenever the clock shows a match, twice in the repeated hour and never in the
missing one. All others are meant for a time of day: by `gap` a run in the missing hour comes
right after it (`after`) or not at all (`skip`), and by `fold` a run in the repeated hour comes
the first time only (`once`) or both times (`both`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from stoker.errors import BadInput
from stoker.kernel import ticks
from stoker.kernel.zones import change_between, load_zone, readings, turned_back, wall_time

Gap = Literal["after", "skip"]
Fold = Literal["once", "both"]

ALIASES = {
    "@HOURLY": "0 * * * *",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@WEEKLY": "0 0 * * 0",
    "@MONTHLY": "0 0 1 * *",
    "@YEARLY": "0 0 1 1 *",
}
USUAL = {**ticks.USUAL, "gap": "after", "fold": "once"}

_SHAPE = re.compile(r"(?P<expression>.*?)(?:\s+in\s+(?P<zone>\S+))?", re.IGNORECASE | re.DOTALL)
_SECOND = timedelta(seconds=1)
_YEARS_SEARCHED = 50
_PROBE = 1_893_456_000_000_000  # 2030-01-01: only the clock rules now in force apply from here


class Cron(ticks.Ticking, frozen=True):
    """Ticks where the wall clock of `zone` matches `expression`."""

    expression: str
    zone: str = "UTC"
    gap: Gap = "after"
    fold: Fold = "once"

    def __post_init__(self) -> None:
        super().__post_init__()
        ticks.check_choice("gap", self.gap, ("after", "skip"))
        ticks.check_choice("fold", self.fold, ("once", "both"))
        load_zone(self.zone)
        msgspec.structs.force_setattr(self, "expression", _canonical(self.expression))
        self.after(_PROBE)

    @classmethod
    def parse(cls, text: str) -> Cron:
        """Read what follows the word `cron`: an expression, a zone and options."""
        head, options = ticks.split_options(text, USUAL)
        shape = _SHAPE.fullmatch(head)
        assert shape is not None  # both parts may be empty
        return cls(shape["expression"], shape["zone"] or "UTC", **options)

    def __str__(self) -> str:
        zone = "" if self.zone == "UTC" else f" in {self.zone}"
        head = f"cron {self.expression}{zone}"
        return ticks.join_options(head, msgspec.structs.asdict(self), USUAL)

    def first_due(self, *, now: int) -> int:
        """The first tick to come."""
        return self.after(now)

    def next_due(self, *, scheduled: int, started: int | None, finished: int) -> int:
        """The tick for the run after the one described."""
        return self.due_on(self, scheduled=scheduled, started=started, finished=finished)

    def after(self, at: int) -> int:
        """The first tick after a moment."""
        zone = load_zone(self.zone)
        found = self._first(wall_time(at, zone), at, zone)
        turn = turned_back(at, zone)
        if turn is not None and at < turn and (found is None or found >= turn):
            # Walls below the one at `at` come again before any higher one does.
            found = self._first(wall_time(turn, zone) - _SECOND, turn - 1, zone)
        if found is None:
            raise BadInput(
                f'"{self}" never comes within {_YEARS_SEARCHED} years: give a day and time that '
                'exist, such as "cron 0 5 * * mon-fri"'
            )
        return found

    def latest(self, low: int, high: int) -> int | None:
        """The last tick in (low, high], if there is one."""
        zone = load_zone(self.zone)
        found = self._last(wall_time(high, zone), high, zone)
        turn = turned_back(high, zone)
        if turn is not None and turn <= high and (found is None or found < turn):
            # Walls above the one at `high` have come already, before the clocks were put back.
            found = self._last(wall_time(turn - 1, zone), turn - 1, zone)
        return found if found is not None and found > low else None

    def _first(self, wall: datetime, at: int, zone: ZoneInfo) -> int | None:
        for match in self._walls(wall):
            for moment in self._moments(match, zone):
                if moment > at:
                    return moment
        return None

    def _last(self, wall: datetime, at: int, zone: ZoneInfo) -> int | None:
        for match in self._walls(wall.replace(microsecond=0) + _SECOND, reverse=True):
            for moment in reversed(self._moments(match, zone)):
                if moment <= at:
                    return moment
        return None

    def _walls(self, start: datetime, *, reverse: bool = False) -> Iterator[datetime]:
        """Matching wall times after the start, or before it: newest first."""
        try:
            for wall in CronSim(self.expression, start, reverse):
                if abs(wall.year - start.year) > _YEARS_SEARCHED:
                    return
                yield wall
        except OverflowError:  # the calendar ends
            return

    def _moments(self, wall: datetime, zone: ZoneInfo) -> tuple[int, ...]:
        """The moments at which a run meant for this wall time is due, in order."""
        first, second = readings(wall, zone)
        if first > second:
            meant = self._time_of_day and self.gap == "after"
            return (change_between(second, first, zone),) if meant else ()
        if first == second or (self._time_of_day and self.fold == "once"):
            return (first,)
        return (first, second)

    @property
    def _time_of_day(self) -> bool:
        *_, hour, _day, _month, _weekday = self.expression.split()
        return not hour.startswith("*")


def _canonical(expression: str) -> str:
    """The fields in upper case, one space apart, aliases spelt out."""
    fields = " ".join(expression.upper().split())
    fields = ALIASES.get(fields, fields)
    try:
        if not expression.isascii():
            raise CronSimError("Only plain letters, digits and , - * / # may be used")
        CronSim(fields, datetime(2030, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise BadInput(
            f'cannot read "cron {expression}": {str(error).lower()}. Write minute, hour, day, '
            'month and weekday (with seconds first if you need them), as in "cron 0 5 * * '
            f'mon-fri", or one of {", ".join(ALIASES).lower()}'
        ) from None
    return fields
