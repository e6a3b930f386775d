"""Wall clocks: between UTC microseconds and what a clock on a wall of some zone shows.

A wall time is a naive `datetime`. When clocks are put forward some wall times never come, the
gap; when they are put back some come twice, the fold. `readings` tells the three cases apart.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from typing import TypeGuard
from zoneinfo import ZoneInfo

from stoker.errors import BadInput
from stoker.kernel.ranges import shown

_SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# A year is kept free at both ends of the calendar: one may always reckon with the days around.
LAST_YEAR = 9998


def moment_of(at: datetime) -> int:
    """A time with its zone as UTC microseconds.

    >>> moment_of(datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC))
    1500000
    """
    return (at - _EPOCH) // _MICROSECOND


FIRST = moment_of(datetime(2, 1, 1, tzinfo=UTC))
END = moment_of(datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC))


def is_moment(at: object) -> TypeGuard[int]:
    """Is it a moment that one may reckon with?"""
    return type(at) is int and FIRST <= at < END


def check_moment(at: object) -> None:
    """Refuse a moment with which nobody can reckon.

    >>> check_moment(2**60)
    Traceback (most recent call last):
    stoker.errors.BadInput: the moment 1152921504606846976 (µs) lies outside the years 2 to 9998
    """
    if not is_moment(at):
        raise BadInput(f"the moment {shown(at)} (µs) lies outside the years 2 to {LAST_YEAR}")


def load_zone(name: str) -> ZoneInfo:
    """The zone of that name; `localtime` is refused, for it differs between machines."""
    try:
        if name != "localtime":
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown; no possible name; a directory of zones
        pass
    raise BadInput(f'there is no time zone "{name}": give a name such as Europe/Berlin or UTC')


def wall_time(at: int, zone: ZoneInfo) -> datetime:
    """What the clocks of the zone show at a moment."""
    check_moment(at)
    return (_EPOCH + at * _MICROSECOND).astimezone(zone).replace(tzinfo=None)


def readings(wall: datetime, zone: ZoneInfo) -> tuple[int, int]:
    """The moment of a wall time by the clock before and by the clock after a nearby change.

    Equal on any ordinary day. In the fold the first is earlier, and both are right; in the gap
    the first is later, and neither ever shows on a clock.
    """
    before, after = (moment_of(wall.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    return before, after


def change_between(low: int, high: int, zone: ZoneInfo) -> int:
    """The moment between two at which the clocks are changed; they must differ in offset."""
    seconds = range(low // _SECOND, high // _SECOND + 1)
    old = _offset(seconds[0], zone)
    return seconds[bisect_left(seconds, True, key=lambda s: _offset(s, zone) != old)] * _SECOND


def turned_back(at: int, zone: ZoneInfo) -> int | None:
    """When the clocks are put back, if what they show at this moment comes twice."""
    first, second = readings(wall_time(at, zone), zone)
    return change_between(first, second, zone) if first < second else None


def offset_changes(low: int, high: int, zone: ZoneInfo) -> bool:
    """Whether the clocks differ from UTC by another amount at one moment than at the other."""
    return _offset(low // _SECOND, zone) != _offset(high // _SECOND, zone)


def _offset(seconds: int, zone: ZoneInfo) -> timedelta | None:
    return (_EPOCH + timedelta(seconds=seconds)).astimezone(zone).utcoffset()
