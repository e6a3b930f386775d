"""When a queue is open: its windows, and the maintenance that closes it.

Maintenance comes once, between two moments, or again and again, by windows of its own. It is over
by itself. With `drain` the queue closes so much earlier: what runs can end before it begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from stoker.errors import BadInput
from stoker.kernel import duration
from stoker.kernel.window import Windows, closes_at, next_open, parse_windows, windows_text
from stoker.kernel.zones import change_between, check_moment, load_zone, moment_of, readings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_YEAR = 366 * 86_400_000_000

_DRAIN = re.compile(r"(?P<when>.*?)(?:,?\s+drain\s+(?P<drain>\S+))?", re.IGNORECASE | re.DOTALL)
_ONCE = re.compile(
    r"(?P<start>\d{4}-\d\d-\d\d.*?)\s+to\s+(?P<end>\d{4}-\d\d-\d\d.*?)(?:\s+in\s+(?P<zone>\S+))?",
    re.IGNORECASE | re.DOTALL,
)
_EXAMPLES = (
    '"sun 02:00-04:00 in Europe/Berlin, drain 30m" or "2027-03-28 02:00 to 2027-03-28 04:00"'
)


class Maintenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """Time in which nothing of a queue starts: by windows, or from one moment to another.

    >>> str(Maintenance(windows=parse_windows("sun 2:00-4:00"), drain=1_800_000_000))
    'sun 02:00-04:00, drain 30m'
    """

    windows: Windows | None = None
    start: int | None = None
    end: int | None = None
    drain: int = 0

    def __post_init__(self) -> None:
        if (self.windows is None) == (self.start is None or self.end is None):
            raise BadInput(f"maintenance is by windows, or has a start and an end: {_EXAMPLES}")
        for moment in (self.start, self.end):
            if moment is not None:
                check_moment(moment)
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise BadInput("maintenance must end after it has begun; look at its two times again")
        if self.windows is not None and _never_closes(self.windows):
            raise BadInput("maintenance that never ends is a pause; pause the queue instead")
        if not duration.is_time(self.drain):
            raise BadInput("maintenance drains from 0 to 1,000 years; leave drain out for none")

    def __str__(self) -> str:
        when = f"{_shown(self.start)} to {_shown(self.end)}"
        if self.windows is not None:
            when = windows_text(self.windows)
        return f"{when}, drain {duration.text(self.drain)}" if self.drain else when

    def over_at(self, at: int) -> int | None:
        """When it is over, if it is on at this moment or drains for it; else None."""
        start, end = self.start, self.end
        if self.windows is not None:
            start = next_open(self.windows, at)
            end = closes_at(self.windows, start)
        assert start is not None and end is not None  # it has been looked at when it was made
        return end if start - self.drain <= at < end else None


def parse_maintenance(text: str) -> Maintenance:
    """Read `sun 02:00-04:00 in Europe/Berlin, drain 30m`, or `2027-03-28 02:00 to 2027-03-28 04:00`
    for once; without a zone these are UTC.

    >>> str(parse_maintenance("2027-07-01 02:00 to 2027-07-01 04:00 in Europe/Berlin"))
    '2027-07-01 00:00 to 2027-07-01 02:00'
    """
    said = _DRAIN.fullmatch(text.strip())
    assert said is not None  # every part may be empty
    drain = 0 if said["drain"] is None else duration.micros(said["drain"])
    once = _ONCE.fullmatch(said["when"])
    if once is None:
        return Maintenance(parse_windows(said["when"]), drain=drain)
    zone = once["zone"] or "UTC"
    start, end = _moments(once["start"], zone), _moments(once["end"], zone)
    return Maintenance(start=min(start), end=max(end), drain=drain)


def next_opening(
    windows: Iterable[Windows | None], maintenance: Iterable[Maintenance], at: int
) -> int | None:
    """The moment itself if all windows are open and no maintenance is on, else the next such one.

    None if there is none within a year: then they exclude one another.
    """
    hours, closures, moment = list(windows), list(maintenance), at
    while moment < at + _YEAR:
        ends = [over for each in closures if (over := each.over_at(moment)) is not None]
        later = max([moment, *(next_open(each, moment) for each in hours if each), *ends])
        if later == moment:
            return moment
        moment = later
    return None


def _never_closes(windows: Windows) -> bool:
    return closes_at(windows, next_open(windows, 0)) is None


def _moments(text: str, zone: str) -> tuple[int, int]:
    """The moments at which the clocks of the zone show this: two in the hour that comes twice,
    and for the hour that is missing the moment at which it is passed over."""
    try:
        wall = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(
            f'cannot read "{text}" in the maintenance: write it like {_EXAMPLES}'
        ) from None
    if wall.tzinfo is not None:
        moment = moment_of(wall)
        return moment, moment
    first, second = readings(wall, load_zone(zone))
    if first <= second:
        return first, second
    change = change_between(second, first, load_zone(zone))
    return change, change


def _shown(moment: int | None) -> str:
    at = (_EPOCH + (moment or 0) * _MICROSECOND).replace(tzinfo=None)
    exact = at.second or at.microsecond
    return at.isoformat(" ") if exact else at.isoformat(" ", "minutes")
