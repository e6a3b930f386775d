"""Durations: from what people write (`1h30m`, `PT5M`, 2.5) to microseconds and back."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

from stoker.errors import BadInput

UNITS = {
    "w": 7 * 86_400_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}
LONGEST = 1_000 * 365 * UNITS["d"]
"""Whatever lies so far ahead is still in the calendar."""

_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,9})?"


def _amounts(*units: str) -> str:
    """A pattern for amounts of these units: each may be missing, the order may not change."""
    return r"\s*".join(rf"(?:(?P<{unit}>{_NUMBER}){unit})?" for unit in units)


_FORMS = (
    re.compile(rf"(?P<s>{_NUMBER})"),
    re.compile(_amounts(*UNITS)),
    re.compile(rf"p{_amounts('w', 'd')}(?:t(?=[0-9]){_amounts('h', 'm', 's')})?"),
)


def micros(value: str | int | float | timedelta) -> int:
    """Microseconds of `30s`, `1h30m`, `250ms`, `2d`, `PT5M`, a timedelta or a number of seconds."""
    amount = _exact(value)
    if amount is None:
        raise BadInput(
            f"cannot read the duration {value!r}: write it like 30s, 1h30m, 250ms, 2d or PT5M, "
            "or give a number of seconds"
        )
    if amount < 0:
        raise BadInput(f"the duration {value!r} is negative: give 0 or more, such as 30s")
    if amount > LONGEST:
        raise BadInput(f"the duration {value!r} is longer than 1,000 years: give a shorter one")
    return round(amount)


def is_time(value: object, *, least: int = 0) -> bool:
    """Is it a time that may be said: whole microseconds, and no more than 1,000 years?

    >>> is_time(0), is_time(0, least=1), is_time(2**63), is_time(1.5), is_time(True)
    (True, False, False, False, False)
    """
    return type(value) is int and least <= value <= LONGEST


def check_time(what: str, value: object) -> None:
    """Refuse what is no time that may be said.

    >>> check_time("visibility", 1e300)
    Traceback (most recent call last):
    stoker.errors.BadInput: visibility must be from 0 to 1,000 years, in whole microseconds
    """
    if not is_time(value):
        raise BadInput(f"{what} must be from 0 to 1,000 years, in whole microseconds")


def text(micros: int) -> str:
    """The shortest exact form of a duration that `micros` reads, such as `1h30m`."""
    parts = []
    for unit, size in UNITS.items():
        count, micros = divmod(micros, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _exact(value: str | int | float | timedelta) -> int | Fraction | None:
    if isinstance(value, str):
        return _read(value.strip().lower())
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    try:
        return None if isinstance(value, bool) else Fraction(value) * UNITS["s"]
    except (TypeError, ValueError, OverflowError):  # no number at all, NaN, infinite
        return None


def _read(text: str) -> Fraction | None:
    for form in _FORMS:
        if match := form.fullmatch(text):
            found = {unit: amount for unit, amount in match.groupdict().items() if amount}
            if found:
                return sum(
                    (Fraction(amount) * UNITS[unit] for unit, amount in found.items()), Fraction()
                )
    return None
