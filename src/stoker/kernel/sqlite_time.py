"""SQLite's date modifiers, one at a time: what `datetime(value, modifier)` would answer.

The arithmetic is done here, on whole seconds, so that every engine reckons alike; the tests hold
it against SQLite itself. Two of its habits matter. A month or year step changes only that field,
and a day the new month lacks runs over into the next: January 31 and one month is March 3, or
March 2 in a leap year. And the calendar spans the years 0000 to 9999: where SQLite answers NULL,
or a year below 0000, a modifier is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

from stoker.errors import BadInput

_SECOND = 1_000_000
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400

# The calendar repeats itself every 400 years, so `date` can serve years it does not know.
_ERA_DAYS = 146_097
_ERA_START = date(2000, 1, 1).toordinal()
_EPOCH = date(1970, 1, 1).toordinal()


def _seconds(year: int, month: int, day: int, time_of_day: int = 0) -> int:
    """Seconds since 1970; month and day may run over their ends."""
    era, year_of_era = divmod(year + (month - 1) // 12 - 2000, 400)
    first = date(2000 + year_of_era, (month - 1) % 12 + 1, 1).toordinal() - _EPOCH
    return (era * _ERA_DAYS + first + day - 1) * _DAY + time_of_day


def _civil(seconds: int) -> tuple[int, int, int, int]:
    """Year, month, day and the seconds since midnight."""
    days, time_of_day = divmod(seconds, _DAY)
    era, rest = divmod(days + _EPOCH - _ERA_START, _ERA_DAYS)
    day = date.fromordinal(_ERA_START + rest)
    return day.year + era * 400, day.month, day.day, time_of_day


_FIRST = _seconds(0, 1, 1)
_LAST = _seconds(9999, 12, 31, _DAY - 1)

_LENGTHS = {"DAY": _DAY, "HOUR": _HOUR, "MINUTE": _MINUTE, "SECOND": 1}


def _add(seconds: int, amount: str, unit: str) -> int:
    if unit in _LENGTHS:
        return seconds + int(amount) * _LENGTHS[unit]
    year, month, day, time_of_day = _civil(seconds)
    months = int(amount) * (12 if unit == "YEAR" else 1)
    return _seconds(year, month + months, day, time_of_day)


def _start_of(seconds: int, unit: str) -> int:
    year, month, day, _ = _civil(seconds)
    starts = {"DAY": (year, month, day), "MONTH": (year, month, 1), "YEAR": (year, 1, 1)}
    return _seconds(*starts[unit])


def _weekday(seconds: int, wanted: str) -> int:
    today = (seconds // _DAY + 4) % 7  # 1970-01-01 was a Thursday; Sunday is 0
    return seconds + (int(wanted) - today) % 7 * _DAY


_FORMS: tuple[tuple[re.Pattern[str], Callable[..., int]], ...] = (
    (re.compile(r"([+-][0-9]{1,3}) (YEAR|MONTH|DAY|HOUR|MINUTE)S?"), _add),
    (re.compile(r"([+-][0-9]{1,8}) (SECOND)S?"), _add),
    (re.compile(r"START OF (DAY|MONTH|YEAR)"), _start_of),
    (re.compile(r"WEEKDAY ([0-6])"), _weekday),
)


def modifier_valid(text: str) -> bool:
    """Whether `text`, in any case, is one modifier such as `+5 SECONDS` or `START OF DAY`."""
    return _understood(text) is not None


def apply_modifier(at: int, modifier: str) -> int:
    """The time `at`, cut to whole seconds, moved by one modifier."""
    understood = _understood(modifier)
    if understood is None:
        raise BadInput(
            f'cannot read the modifier "{modifier}": write +N or -N with YEARS, MONTHS, DAYS, '
            "HOURS or MINUTES (N up to 999) or SECONDS (N up to 99999999), START OF DAY, "
            "START OF MONTH, START OF YEAR, or WEEKDAY 0 (Sunday) to WEEKDAY 6"
        )
    move, words = understood
    moved = move(at // _SECOND, *words)
    if not _FIRST <= moved <= _LAST:
        raise BadInput(f'"{modifier}" leads out of the years 0000 to 9999: take a smaller step')
    return moved * _SECOND


def _understood(text: str) -> tuple[Callable[..., int], tuple[str, ...]] | None:
    # Beyond ASCII some letters turn into the ones we look for: the long s becomes S.
    if text.isascii():
        for form, move in _FORMS:
            if match := form.fullmatch(text.upper()):
                return move, match.groups()
    return None
