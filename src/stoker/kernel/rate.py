"""Rates: so much in a period, and what has to be remembered to keep to it.

`100 per minute` never lets more than a hundred start in any sixty seconds: the period is counted in
sixteenths, and a sixteenth counts until it is wholly past. `100 per minute, fixed` starts afresh
with every minute of the clock. `10 per second, burst 50` is a bucket that holds fifty and is filled
with ten a second. A job's weight is what it takes.

What is remembered is a line of whole numbers, small enough for doubles to be exact, so that every
engine can reckon with it: for a bucket 0, the moment when it will be full and the last one at which
something started; else how long a slice of time is, the number of the last one in which something
started, and what started in it and in those before. What was remembered under another kind of rate
counts for nothing. Neither does what started more than a period from now: the clock was put back
since then, and nobody is to wait until it is as late again.
"""

from __future__ import annotations

import math
import re

import msgspec

from stoker.errors import BadInput
from stoker.kernel import duration
from stoker.kernel.amount import amount_text, units

_SLICES = 16
_LONGEST = 366 * duration.UNITS["d"]
_SHORTEST = duration.UNITS["ms"]
_SLOWEST = 100 * _LONGEST
"""Nothing takes longer to fill in: moments so far ahead are still exact in doubles."""
_NAMES = {"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w"}
_PERIODS = {duration.UNITS[unit]: name for name, unit in _NAMES.items()}
_SHAPE = re.compile(
    r"(?P<amount>[0-9.]+)\s*(?:per\s+|/\s*)(?P<period>[a-z0-9. ]+?)"
    r"(?:\s*,?\s*(?:(?P<fixed>fixed)|burst\s+(?P<burst>[0-9.]+)))?"
)


class Rate(msgspec.Struct, frozen=True, omit_defaults=True):
    """So much in a period of microseconds: sliding, in fixed periods, or from a bucket.

    >>> Rate(100, 60_000_000) == parse_rate("100 per minute")
    True
    """

    amount: float
    period: int
    fixed: bool = False
    burst: float | None = None

    def __post_init__(self) -> None:
        each = units(self.amount, "the amount of a rate")
        burst = None if self.burst is None else units(self.burst, "the burst of a rate")
        if each < 1 or (burst is not None and burst < 1):
            raise BadInput("a rate must let something through; pause the queue to let nothing run")
        if type(self.period) is not int or not _SHORTEST <= self.period <= _LONGEST:
            raise BadInput("the period of a rate must be between a millisecond and a year")
        if self.fixed and burst is not None:
            raise BadInput("a rate has either fixed periods or a burst")
        if burst is not None and burst / each * self.period > _SLOWEST:
            raise BadInput(
                "a burst must come again within 100 years; give the rate a smaller one, or a "
                "greater amount"
            )

    def __str__(self) -> str:
        period = _PERIODS.get(self.period) or duration.text(self.period)
        text = f"{amount_text(self.amount)} per {period}"
        if self.burst is not None:
            return f"{text}, burst {amount_text(self.burst)}"
        return f"{text}, fixed" if self.fixed else text


def parse_rate(text: str) -> Rate:
    """Read `100 per minute`, `5/10s`, `100 per hour, fixed` or `10 per second, burst 50`.

    >>> str(parse_rate("10/s, burst 50"))
    '10 per second, burst 50'
    """
    match = _SHAPE.fullmatch(text.strip().lower())
    try:
        if match is None:
            raise ValueError(text)
        amount, period = float(match["amount"]), _period(match["period"].strip())
        burst = float(match["burst"]) if match["burst"] else None
    except ValueError:
        raise BadInput(
            f"cannot read the rate {text!r}: write it like 100 per minute, 5 per 10s, "
            "1000 per day, fixed or 10 per second, burst 50; its period is a year at most"
        ) from None
    return Rate(amount, period, match["fixed"] is not None, burst)


def _period(text: str) -> int:
    unit = _NAMES.get(text.removesuffix("s"), text)
    return duration.UNITS[unit] if unit in duration.UNITS else duration.micros(text)


class Flow:
    """What has started under one rate, as of a moment; asked and told job by job."""

    def __init__(self, rate: Rate, state: str, now: int) -> None:
        self._now = now
        numbers = [int(number) for number in state.split()]
        if rate.burst is None:
            self._kind: _Slices | _Bucket = _Slices(rate, numbers, now)
        else:
            self._kind = _Bucket(rate, rate.burst, numbers, now)

    def free_at(self, weight: int) -> int | None:
        """When so much may start; None: now."""
        return self._kind.free_at(weight)

    def take(self, weight: int) -> None:
        """So much starts now."""
        self._kind.take(weight)

    @property
    def state(self) -> str:
        """What to remember."""
        return " ".join(str(number) for number in self._kind.numbers())

    @property
    def until(self) -> int:
        """From when on it is as if nothing had happened."""
        return self._kind.until()


class _Slices:
    def __init__(self, rate: Rate, numbers: list[int], now: int) -> None:
        self._limit = units(rate.amount)
        self._length = rate.period if rate.fixed else -(-rate.period // _SLICES)
        self._kept = 1 if rate.fixed else _SLICES + 1
        this = now // self._length
        if numbers[:1] != [self._length] or numbers[1] > this + self._kept:
            numbers = [self._length, 0]
        _, last, *taken = numbers
        self._index = max(this, last)
        self._taken = ([0] * min(self._index - last, self._kept) + taken)[: self._kept]

    def free_at(self, weight: int) -> int | None:
        used = sum(self._taken)
        moment = None
        for age in range(len(self._taken) - 1, -1, -1):
            if used == 0 or used + weight <= self._limit:
                break
            if self._taken[age]:
                used -= self._taken[age]
                moment = (self._index - age + self._kept) * self._length
        return moment

    def take(self, weight: int) -> None:
        self._taken = self._taken or [0]
        self._taken[0] += weight

    def numbers(self) -> list[int]:
        return [self._length, self._index, *self._taken]

    def until(self) -> int:
        return (self._index + self._kept) * self._length


def filling(rate: Rate) -> tuple[int, int, int]:
    """Of a bucket: how long it takes to fill in what one job of weight 1 takes, how long from empty
    to full, and the period.

    >>> filling(parse_rate("10 per second, burst 50"))
    (100000, 5000000, 1000000)
    """
    if rate.burst is None:
        raise BadInput(f"{rate} is no bucket: it has no burst")
    each, period = units(rate.amount), rate.period
    return _filled_in(units(1), each, period), _filled_in(units(rate.burst), each, period), period


def _filled_in(weight: int, each: int, period: int) -> int:
    """How long it takes to fill in so much. In this order, for other languages' sake. A job may be
    heavier than any burst, and is not to shut a slow rate for ever."""
    return min(math.ceil(weight / each * period), _SLOWEST)


class _Bucket:
    def __init__(self, rate: Rate, burst: float, numbers: list[int], now: int) -> None:
        self._each = units(rate.amount)
        self._period = rate.period
        self._room = self._time(units(burst))
        if numbers[:1] != [0] or numbers[-1] > now + rate.period:
            numbers = [0, now]
        self._full_at = max(numbers[1], now)
        self._now = now

    def _time(self, weight: int) -> int:
        return _filled_in(weight, self._each, self._period)

    def free_at(self, weight: int) -> int | None:
        moment = min(self._full_at, self._full_at + self._time(weight) - self._room)
        return moment if moment > self._now else None

    def take(self, weight: int) -> None:
        self._full_at += self._time(weight)

    def numbers(self) -> list[int]:
        return [0, self._full_at, self._now]

    def until(self) -> int:
        return self._full_at
