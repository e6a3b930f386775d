"""Time windows: the hours in which jobs may start.

`mon-fri 05:00-07:00, 22:00-02:00 in Europe/Berlin except 2026-12-25`. A window is open whenever
the clock on the wall of its zone shows a time inside one of its spans. All else follows: an
opening in the hour that is missing in spring comes right after that hour, and the hour that is
repeated in autumn counts both times. A span across midnight belongs to the day it starts on. On a
blackout date nothing opens, and what is open from the day before closes at midnight.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from itertools import groupby
from typing import Literal, get_args

import msgspec

from stoker.errors import BadInput
from stoker.kernel.zones import (
    LAST_YEAR,
    change_between,
    load_zone,
    offset_changes,
    readings,
    wall_time,
)

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = get_args(Day)

_MIDNIGHT = 24 * 60
_SHAPE = re.compile(
    r"(?P<spans>.*?)(?:\s+in\s+(?P<zone>\S+))?(?:\s+except\s+(?P<dates>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_TIMES = re.compile(r"([0-9]{1,2}):([0-5][0-9])-([0-9]{1,2}):([0-5][0-9])")
_EXAMPLE = "mon-fri 05:00-07:00, 22:00-02:00 in Europe/Berlin except 2026-12-25"


class Span(msgspec.Struct, frozen=True, omit_defaults=True):
    """From one minute of the day to another, the end not included, on some days of the week.

    An end before the start lies on the next day. The end of a day is minute 1440.
    """

    start: int
    end: int
    days: tuple[Day, ...] = DAYS

    def __post_init__(self) -> None:
        if self.start == self.end:
            raise BadInput(f"the span {self} never opens: write 00:00-24:00 for a whole day")
        if not (0 <= self.start < _MIDNIGHT and 0 < self.end <= _MIDNIGHT):
            raise BadInput(f"the span {self} must start by 23:59 and end by 24:00")
        if not self.days or not set(self.days) <= set(DAYS):
            raise BadInput(f"the span {self} needs days out of {', '.join(DAYS)}")
        msgspec.structs.force_setattr(self, "days", tuple(d for d in DAYS if d in self.days))

    def __str__(self) -> str:
        return f"{_clock(self.start)}-{_clock(self.end)}"

    @property
    def stop(self) -> int:
        """The end in minutes from midnight before the start: beyond 1440 on the next day."""
        return self.end if self.end > self.start else self.end + _MIDNIGHT


class Windows(msgspec.Struct, frozen=True, omit_defaults=True):
    """When jobs may start. Without spans: always, blackout dates apart.

    >>> Windows((Span(300, 420),)) == parse_windows("05:00-07:00")
    True
    """

    spans: tuple[Span, ...] = ()
    zone: str = "UTC"
    blackouts: tuple[date, ...] = ()

    def __post_init__(self) -> None:
        load_zone(self.zone)
        if any(day.year > LAST_YEAR for day in self.blackouts):
            raise BadInput(f"blackout dates must lie before the end of the year {LAST_YEAR}")
        msgspec.structs.force_setattr(self, "spans", _merged(self.spans))
        msgspec.structs.force_setattr(self, "blackouts", tuple(sorted(set(self.blackouts))))


def is_open(windows: Windows, at: int) -> bool:
    """Whether a job may start at this moment."""
    wall = wall_time(at, load_zone(windows.zone))
    today, minute = wall.date(), wall.hour * 60 + wall.minute
    if today in windows.blackouts:
        return False
    yesterday = today - timedelta(days=1)
    return not windows.spans or any(
        (span.start <= minute < span.stop and DAYS[today.weekday()] in span.days)
        or (
            minute + _MIDNIGHT < span.stop
            and DAYS[yesterday.weekday()] in span.days
            and yesterday not in windows.blackouts
        )
        for span in windows.spans
    )


def next_open(windows: Windows, at: int) -> int:
    """The moment itself if the window is open, else the next opening."""
    if is_open(windows, at):
        return at
    return next(edge for edge in _edges(windows, at) if is_open(windows, edge))


def closes_at(windows: Windows, at: int) -> int | None:
    """When the window that is open closes, None if never; the moment itself if it is closed."""
    if not is_open(windows, at):
        return at
    return next((edge for edge in _edges(windows, at) if not is_open(windows, edge)), None)


def parse_windows(text: str) -> Windows:
    """Read windows such as `mon-fri 05:00-07:00, 22:00-02:00 in Europe/Berlin except 2026-12-25`.

    Days apply to all times after them up to the next days; times before any day apply daily.
    `always` stands for no spans.

    >>> windows_text(parse_windows("Mon-Fri 5:00-7:00, 22:00-2:00 in Europe/Berlin"))
    'mon-fri 05:00-07:00, 22:00-02:00 in Europe/Berlin'
    """
    shape = _SHAPE.fullmatch(text.strip())
    assert shape is not None  # every part may be empty
    said = shape["spans"].lower()
    return Windows(
        spans=() if said == "always" else tuple(_read_spans(said)),
        zone=shape["zone"] or "UTC",
        blackouts=tuple(_read_date(word) for word in _words(shape["dates"] or "")),
    )


def windows_of(said: object) -> Windows:
    """Windows as they are, or from their text.

    >>> windows_of("5:00-7:00") == windows_of(Windows((Span(300, 420),)))
    True
    """
    if isinstance(said, str):
        return parse_windows(said)
    if not isinstance(said, Windows):
        raise BadInput(f'windows are a text like "{_EXAMPLE}", or Windows, not {said!r}')
    return said


def windows_text(windows: Windows) -> str:
    """The canonical text of windows, which `parse_windows` reads."""
    groups = (
        _days_text(days) + ", ".join(map(str, spans))
        for days, spans in groupby(windows.spans, key=lambda span: span.days)
    )
    text = ", ".join(groups) or "always"
    if windows.zone != "UTC":
        text += f" in {windows.zone}"
    if windows.blackouts:
        text += f" except {', '.join(map(str, windows.blackouts))}"
    return text


def _edges(windows: Windows, at: int) -> Iterator[int]:
    """The moments after this one, in order, at which the window may open or close.

    Spans come again each week, and the missing hour in spring swallows one at most once. So if
    nothing opens within two weeks blackouts are the reason, and it opens within two weeks of one;
    if nothing closes within two weeks only a blackout can close it.
    """
    today = wall_time(at, load_zone(windows.zone)).date()
    begins = (today, *(day for day in windows.blackouts if day > today))
    fortnights = {begin + timedelta(days=n) for begin in begins for n in range(15)}
    for day in sorted(fortnights):
        yield from (edge for edge in _edges_of_day(windows, day) if edge > at)


def _edges_of_day(windows: Windows, day: date) -> list[int]:
    zone = load_zone(windows.zone)
    minutes = {0} | {m % _MIDNIGHT for span in windows.spans for m in (span.start, span.end)}
    midnight = datetime.combine(day, time())
    edges = {
        edge for minute in minutes for edge in readings(midnight + timedelta(minutes=minute), zone)
    }
    dawn, dusk = min(readings(midnight, zone)), max(readings(midnight + timedelta(days=1), zone))
    if offset_changes(dawn, dusk, zone):
        edges.add(change_between(dawn, dusk, zone))
    return sorted(edges)


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same hours in canonical form: day by day overlaps are merged, then like days joined."""
    days_of: dict[tuple[int, int], list[Day]] = {}
    for day in DAYS:
        for times in _merged_day(sorted((s.start, s.stop) for s in spans if day in s.days)):
            days_of.setdefault(times, []).append(day)
    joined = [
        Span(start, stop if stop <= _MIDNIGHT else stop - _MIDNIGHT, tuple(days))
        for (start, stop), days in days_of.items()
    ]
    return tuple(sorted(joined, key=lambda s: (s.days != DAYS, _numbers(s.days), s.start, s.end)))


def _merged_day(times: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in times:
        if merged and start <= merged[-1][1]:
            first, last = merged[-1][0], max(stop, merged[-1][1])
            # A span cannot tell 24 hours from none, unless they are a whole day.
            if last <= _MIDNIGHT or last - _MIDNIGHT < first:
                merged[-1] = (first, last)
                continue
        merged.append((start, stop))
    return merged


def _numbers(days: tuple[Day, ...]) -> list[int]:
    return [DAYS.index(day) for day in days]


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[,;\s]+", text) if word]


def _read_spans(text: str) -> Iterator[Span]:
    words = _words(re.sub(r"\s*-\s*", "-", text))
    if not words:
        raise BadInput(f'no times given: write windows like "{_EXAMPLE}", or "always"')
    days: tuple[Day, ...] = DAYS
    naming = False
    for word in words:
        named = _read_days(word)
        if named:
            days = days + named if naming else named
        else:
            yield _read_times(word, days)
        naming = bool(named)
    if naming:
        raise BadInput(f'no times after "{words[-1]}": write "{words[-1]} 00:00-24:00" for all day')


def _read_days(word: str) -> tuple[Day, ...]:
    """The days named by `mon` or `fri-mon`; none if the word is not about days."""
    first, _, last = word.partition("-")
    last = last or first
    if first not in DAYS or last not in DAYS:
        return ()
    begin, length = DAYS.index(first), (DAYS.index(last) - DAYS.index(first)) % 7
    return (DAYS + DAYS)[begin : begin + length + 1]


def _read_times(word: str, days: tuple[Day, ...]) -> Span:
    match = _TIMES.fullmatch(word)
    if match is None:
        raise BadInput(f'cannot read "{word}" in the windows: write them like "{_EXAMPLE}"')
    hour, minute, end_hour, end_minute = map(int, match.groups())
    start, end = hour * 60 + minute, end_hour * 60 + end_minute
    # Midnight as an end is the end of the day, except right from midnight on: that is no time.
    return Span(start, _MIDNIGHT if end == 0 and start > 0 else end, days)


def _read_date(word: str) -> date:
    try:
        return date.fromisoformat(word)
    except ValueError:
        raise BadInput(f'cannot read the date "{word}": write it like 2026-12-25') from None


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _days_text(days: tuple[Day, ...]) -> str:
    """`mon-fri ` or `sat,sun `: three days or more in a row make a range; nothing for all days."""
    if days == DAYS:
        return ""
    rows = groupby(enumerate(_numbers(days)), key=lambda pair: pair[1] - pair[0])
    names = [[DAYS[number] for _, number in row] for _, row in rows]
    texts = (f"{row[0]}-{row[-1]}" if len(row) > 2 else ",".join(row) for row in names)
    return ",".join(texts) + " "
