"""Times and durations, as people read them."""

from __future__ import annotations

import pytest

from stoker.doors.cli.words import both, clock, distance, iso, jobs_text, span
from tests.engines import START

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86400 * SECOND


@pytest.mark.parametrize(
    ("micros", "told"),
    [
        (0, "0 µs"),
        (999, "999 µs"),
        (1_000, "1 ms"),
        (1_240, "1.24 ms"),
        (350_000, "350 ms"),
        (SECOND, "1 s"),
        (1_500_000, "1.5 s"),
        (119 * SECOND, "119 s"),
        (120 * SECOND, "2 min"),
        (179 * SECOND, "2 min"),
        (119 * MINUTE, "119 min"),
        (2 * HOUR, "2 h"),
        (47 * HOUR, "47 h"),
        (2 * DAY, "2 d"),
        (400 * DAY, "400 d"),
    ],
)
def test_a_duration_is_told_in_round_words(micros: int, told: str) -> None:
    assert span(micros) == told


@pytest.mark.parametrize(
    ("apart", "told"),
    [
        (0, "now"),
        (-999_999, "now"),
        (SECOND, "in 1 s"),
        (-1_900_000, "1 s ago"),
        (5 * MINUTE, "in 5 min"),
        (-3 * DAY, "3 d ago"),
    ],
)
def test_a_moment_is_told_by_how_far_off_it_is(apart: int, told: str) -> None:
    assert distance(START + apart, START) == told


def test_a_moment_is_told_in_full() -> None:
    assert clock(START) == "2023-11-14 22:13:20 UTC"
    assert both(START, START + MINUTE) == "2023-11-14 22:13:20 UTC (60 s ago)"


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (None, None),
        (0, "1970-01-01T00:00:00.000000Z"),
        (START + 7, "2023-11-14T22:13:20.000007Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
    ],
)
def test_programs_get_every_microsecond(at: int | None, told: str | None) -> None:
    assert iso(at) == told


@pytest.mark.parametrize(("count", "told"), [(0, "0 jobs"), (1, "1 job"), (1200, "1,200 jobs")])
def test_jobs_are_counted_as_people_do(count: int, told: str) -> None:
    assert jobs_text(count) == told
