"""Time windows: when a job may start.

In 2026 Berlin goes from 02:00 to 03:00 on Sunday, March 29 and from 03:00 to 02:00 on Sunday,
October 25; New York from 02:00 to 03:00 on March 8 and from 02:00 to 01:00 on November 1.
"""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.errors import BadInput
from stoker.kernel.window import (
    DAYS,
    Span,
    Windows,
    closes_at,
    is_open,
    next_open,
    parse_windows,
    windows_text,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
QUARTER = 15 * 60 * 1_000_000


def at(text: str) -> int:
    """A moment by its local time and offset; UTC if there is none."""
    moment = datetime.fromisoformat(text)
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - EPOCH) // timedelta(microseconds=1)


def test_a_window_is_open_from_its_start_up_to_its_end() -> None:
    windows = parse_windows("05:00-07:00")
    assert not is_open(windows, at("2026-05-04 05:00") - 1)
    assert is_open(windows, at("2026-05-04 05:00"))
    assert is_open(windows, at("2026-05-04 07:00") - 1)
    assert not is_open(windows, at("2026-05-04 07:00"))


@pytest.mark.parametrize(
    ("now", "opening"),
    [
        ("2026-05-04 04:59", "2026-05-04 05:00"),
        ("2026-05-04 06:00", "2026-05-04 06:00"),
        ("2026-05-04 07:00", "2026-05-04 22:00"),
        ("2026-05-04 12:00", "2026-05-04 22:00"),
        ("2026-05-04 23:00", "2026-05-05 05:00"),
    ],
)
def test_a_closed_moment_moves_to_the_next_opening(now: str, opening: str) -> None:
    windows = parse_windows("05:00-07:00, 22:00-23:00")
    assert next_open(windows, at(now)) == at(opening)


def test_a_span_across_midnight_belongs_to_the_day_it_starts_on() -> None:
    windows = parse_windows("mon 22:00-02:00")
    assert is_open(windows, at("2026-05-04 23:30"))
    assert is_open(windows, at("2026-05-05 01:30"))
    assert not is_open(windows, at("2026-05-05 02:00"))
    assert not is_open(windows, at("2026-05-04 01:30"))
    assert not is_open(windows, at("2026-05-05 23:30"))
    assert closes_at(windows, at("2026-05-04 23:30")) == at("2026-05-05 02:00")
    assert next_open(windows, at("2026-05-05 02:00")) == at("2026-05-11 22:00")


def test_a_window_opens_on_its_days_of_the_week_only() -> None:
    windows = parse_windows("mon-fri 05:00-07:00")
    assert next_open(windows, at("2026-05-08 07:00")) == at("2026-05-11 05:00")


def test_a_whole_day_passes_into_the_next_without_closing() -> None:
    windows = parse_windows("sat,sun 00:00-24:00")
    assert next_open(windows, at("2026-05-08 12:00")) == at("2026-05-09 00:00")
    assert closes_at(windows, at("2026-05-09 12:00")) == at("2026-05-11 00:00")


def test_without_spans_the_window_is_always_open() -> None:
    assert is_open(Windows(), 0)
    assert next_open(Windows(), 12_345) == 12_345
    assert closes_at(Windows(), 0) is None


def test_whole_days_all_week_never_close() -> None:
    assert closes_at(parse_windows("00:00-24:00"), at("2026-05-04 12:00")) is None


def test_a_closed_window_closes_at_once() -> None:
    assert closes_at(parse_windows("05:00-07:00"), at("2026-05-04 12:00")) == at("2026-05-04 12:00")


def test_no_window_opens_on_a_blackout_date() -> None:
    windows = parse_windows("05:00-07:00 except 2026-12-24, 2026-12-25")
    assert not is_open(windows, at("2026-12-24 06:00"))
    assert next_open(windows, at("2026-12-23 07:00")) == at("2026-12-26 05:00")


def test_a_span_into_a_blackout_date_is_cut_at_midnight() -> None:
    windows = parse_windows("22:00-02:00 except 2026-12-25")
    assert closes_at(windows, at("2026-12-24 23:00")) == at("2026-12-25 00:00")
    assert not is_open(windows, at("2026-12-25 01:00"))


def test_a_span_that_would_start_on_a_blackout_date_does_not_reach_the_next_day() -> None:
    windows = parse_windows("22:00-02:00 except 2026-12-25")
    assert not is_open(windows, at("2026-12-26 01:00"))
    assert next_open(windows, at("2026-12-25 00:00")) == at("2026-12-26 22:00")


def test_a_far_blackout_closes_what_is_otherwise_always_open() -> None:
    windows = parse_windows("always in Europe/Berlin except 2029-12-25")
    assert closes_at(windows, at("2026-05-04 12:00")) == at("2029-12-25 00:00+01:00")
    assert next_open(windows, at("2029-12-25 12:00+01:00")) == at("2029-12-26 00:00+01:00")


def test_blackouts_week_after_week_are_all_waited_for() -> None:
    mondays = tuple(date(2026, 5, 4) + timedelta(weeks=n) for n in range(60))
    windows = Windows((Span(300, 420, ("mon",)),), "UTC", mondays)
    assert next_open(windows, at("2026-05-04 00:00")) == at("2027-06-28 05:00")


@pytest.mark.parametrize(
    ("text", "now", "opening"),
    [
        ("02:30-05:00 in Europe/Berlin", "2026-03-29 01:00+01:00", "2026-03-29 03:00+02:00"),
        ("02:30-05:00 in America/New_York", "2026-03-08 01:00-05:00", "2026-03-08 03:00-04:00"),
        ("02:00-02:45 in Europe/Berlin", "2026-03-29 01:00+01:00", "2026-03-30 02:00+02:00"),
    ],
)
def test_an_opening_in_the_missing_hour_comes_right_after_it(
    text: str, now: str, opening: str
) -> None:
    assert next_open(parse_windows(text), at(now)) == at(opening)


def test_a_weekly_window_swallowed_by_the_missing_hour_opens_a_week_later() -> None:
    windows = parse_windows("sun 02:00-02:45 in Europe/Berlin")
    assert next_open(windows, at("2026-03-22 02:45+01:00")) == at("2026-04-05 02:00+02:00")


def test_a_window_that_ends_in_the_missing_hour_closes_where_the_clock_jumps() -> None:
    windows = parse_windows("01:00-02:30 in Europe/Berlin")
    assert closes_at(windows, at("2026-03-29 01:30+01:00")) == at("2026-03-29 03:00+02:00")


def test_the_repeated_hour_is_inside_both_times() -> None:
    windows = parse_windows("02:00-03:00 in Europe/Berlin")
    assert is_open(windows, at("2026-10-25 02:30+02:00"))
    assert is_open(windows, at("2026-10-25 02:30+01:00"))
    assert closes_at(windows, at("2026-10-25 02:30+02:00")) == at("2026-10-25 03:00+01:00")


def test_a_part_of_the_repeated_hour_opens_twice() -> None:
    windows = parse_windows("01:30-01:45 in America/New_York")
    assert closes_at(windows, at("2026-11-01 01:30-04:00")) == at("2026-11-01 01:45-04:00")
    assert next_open(windows, at("2026-11-01 01:45-04:00")) == at("2026-11-01 01:30-05:00")
    assert next_open(windows, at("2026-11-01 01:45-05:00")) == at("2026-11-02 01:30-05:00")


def test_a_window_that_reaches_into_the_repeated_hour_opens_again_when_clocks_go_back() -> None:
    windows = parse_windows("01:00-02:30 in Europe/Berlin")
    assert next_open(windows, at("2026-10-25 02:40+02:00")) == at("2026-10-25 02:00+01:00")


def test_the_zone_decides_which_date_and_day_it_is() -> None:
    windows = parse_windows("mon 00:00-01:00 in Asia/Tokyo except 2026-05-11")
    assert is_open(windows, at("2026-05-03 15:30"))
    assert not is_open(windows, at("2026-05-10 15:30"))


def test_the_zone_of_the_machine_has_no_influence(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = parse_windows("05:00-07:00")
    try:
        with monkeypatch.context() as patch:
            patch.setenv("TZ", "Asia/Tokyo")
            time.tzset()
            assert time.tzname[0] == "JST"
            assert next_open(windows, at("2026-05-04 00:00")) == at("2026-05-04 05:00")
    finally:
        time.tzset()


quarters = st.integers(0, 95)
day_sets = st.sets(st.sampled_from(DAYS), min_size=1).map(tuple)
spans = st.builds(
    lambda start, length, days: Span(start * 15, (start + length) % 96 * 15 or 1440, days),
    quarters,
    st.integers(1, 95),
    day_sets,
)
zones = st.sampled_from(["Europe/Berlin", "America/New_York", "America/Santiago", "UTC"])
# Sundays on which clocks change somewhere among the zones, and the days around.
some_days = st.sampled_from(["2026-03-07", "2026-03-28", "2026-04-04", "2026-10-24", "2026-10-31"])
blackouts = st.lists(
    st.builds(
        lambda day, n: date.fromisoformat(day) + timedelta(days=n), some_days, st.integers(0, 9)
    ),
    max_size=4,
).map(tuple)
definitions = st.builds(Windows, st.lists(spans, max_size=4).map(tuple), zones, blackouts)
moments = st.builds(
    lambda day, quarter: at(f"{day} 00:00") + quarter * QUARTER, some_days, st.integers(0, 288)
)


@settings(max_examples=60, deadline=None)
@given(definitions, moments)
def test_openings_and_closings_are_where_a_walk_through_the_hours_finds_them(
    windows: Windows, now: int
) -> None:
    """All edges lie on quarters of an hour, so that walking from quarter to quarter misses none."""
    days = 25
    walk = [(t, is_open(windows, t)) for t in range(now, now + days * 96 * QUARTER, QUARTER)]
    closing = closes_at(windows, now)
    assert next_open(windows, now) == next(t for t, opened in walk if opened)
    assert (closing if closing is None or closing <= walk[-1][0] else None) == next(
        (t for t, opened in walk if not opened), None
    )


@settings(deadline=None)
@given(st.lists(spans, min_size=1, max_size=4), moments)
def test_merging_changes_nothing_about_when_it_is_open(parts: list[Span], now: int) -> None:
    merged = Windows(tuple(parts))
    alone = (Windows((span,)) for span in parts)
    assert is_open(merged, now) == any(is_open(windows, now) for windows in alone)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        (
            "mon-fri 05:00-07:00, 22:00-02:00 in Europe/Berlin except 2026-12-25",
            "mon-fri 05:00-07:00, 22:00-02:00 in Europe/Berlin except 2026-12-25",
        ),
        ("05:00-07:00, 06:00-08:00; 08:00-09:00", "05:00-09:00"),
        ("22:00-02:00, 20:00-23:00", "20:00-02:00"),
        ("Mon , Wed 5:00 - 7:00", "mon,wed 05:00-07:00"),
        ("sat-sun 05:00-06:00", "sat,sun 05:00-06:00"),
        ("fri-mon 05:00-06:00", "mon,fri-sun 05:00-06:00"),
        ("sat 10:00-12:00, mon-fri 05:00-07:00", "mon-fri 05:00-07:00, sat 10:00-12:00"),
        ("mon-sun 05:00-07:00, sat 10:00-12:00", "05:00-07:00, sat 10:00-12:00"),
        ("22:00-00:00", "22:00-24:00"),
        ("08:00-20:00, 20:00-08:00", "08:00-20:00, 20:00-08:00"),
        ("ALWAYS EXCEPT 2026-12-25 2026-12-24 2026-12-25", "always except 2026-12-24, 2026-12-25"),
    ],
)
def test_windows_have_one_canonical_text(written: str, canonical: str) -> None:
    assert windows_text(parse_windows(written)) == canonical


@settings(deadline=None)
@given(definitions)
def test_windows_read_back_from_their_text_and_from_json(windows: Windows) -> None:
    assert parse_windows(windows_text(windows)) == windows
    assert msgspec.json.decode(msgspec.json.encode(windows), type=Windows) == windows


def test_windows_are_plain_in_json() -> None:
    windows = parse_windows("mon 05:00-07:00 in Europe/Berlin except 2026-12-25")
    assert msgspec.json.encode(windows) == (
        b'{"spans":[{"start":300,"end":420,"days":["mon"]}],'
        b'"zone":"Europe/Berlin","blackouts":["2026-12-25"]}'
    )


@pytest.mark.parametrize(
    ("malformed", "complaint"),
    [
        ("", 'no times given: write windows like .*"always"'),
        ("except 2026-12-25", 'cannot read "except"'),
        ("05:00-05:00", "05:00-05:00 never opens: write 00:00-24:00"),
        ("00:00-00:00", "never opens"),
        ("24:00-02:00", "must start by 23:59"),
        ("22:00-25:00", "must start by 23:59 and end by 24:00"),
        ("22:00-24:30", "end by 24:00"),
        ("5-7", 'cannot read "5-7" in the windows'),
        ("monday 05:00-07:00", 'cannot read "monday"'),
        ("05:00-07:00, sat", 'no times after "sat": write "sat 00:00-24:00"'),
        ("05:00-07:00 in Berlin", 'no time zone "Berlin"'),
        ("05:00-07:00 except christmas", 'cannot read the date "christmas".*2026-12-25'),
        ("05:00-07:00 except 2026-02-30", 'cannot read the date "2026-02-30"'),
        ("always except 9999-12-31", "blackout dates must lie before"),
    ],
)
def test_malformed_windows_are_refused_with_a_hint(malformed: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        parse_windows(malformed)


def test_a_span_without_days_would_never_open_and_is_refused() -> None:
    with pytest.raises(BadInput, match="needs days out of mon"):
        Span(300, 420, ())


def test_stored_windows_that_never_open_are_refused_when_read() -> None:
    with pytest.raises(msgspec.ValidationError, match="never opens"):
        msgspec.json.decode(b'{"spans":[{"start":300,"end":300}]}', type=Windows)
