"""Repeat by interval, and which of the ticks that passed are made up for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.errors import BadInput
from stoker.kernel.every import Every, Grid
from stoker.kernel.repeat import first_due, next_due, overlaps, parse_repeat, preview

SECOND = 1_000_000
MINUTE = 60 * SECOND
YEAR = 365 * 86_400 * SECOND


def due(repeat: str, *, scheduled: int, started: int | None, finished: int) -> int:
    """All times in minutes."""
    at = next_due(
        parse_repeat(repeat),
        scheduled=scheduled * MINUTE,
        started=None if started is None else started * MINUTE,
        finished=finished * MINUTE,
    )
    assert at % MINUTE == 0
    return at // MINUTE


def test_the_phase_of_the_scheduled_times_is_kept() -> None:
    assert due("every 10m", scheduled=3, started=5, finished=8) == 13


def test_a_tick_at_the_very_end_of_a_run_is_overlapped_not_next() -> None:
    assert due("every 10m", scheduled=0, started=0, finished=10) == 20


def test_the_first_run_comes_one_interval_from_now() -> None:
    assert first_due(parse_repeat("every 10m"), now=7 * MINUTE) == 17 * MINUTE


def test_a_preview_shows_the_coming_ticks() -> None:
    assert preview(parse_repeat("every 1s"), after=5, count=3) == [
        5 + SECOND,
        5 + 2 * SECOND,
        5 + 3 * SECOND,
    ]


@pytest.mark.parametrize(
    ("missed", "expected"), [("skip", 40), ("latest", 30), ("all:2", 20), ("all:9", 10)]
)
def test_ticks_that_fell_due_before_the_start_are_missed(missed: str, expected: int) -> None:
    repeat = f"every 10m; missed={missed}"
    assert due(repeat, scheduled=0, started=35, finished=36) == expected


@pytest.mark.parametrize(("overlap", "expected"), [("skip", 40), ("queue", 30), ("allow", 40)])
def test_ticks_that_fell_due_during_the_run_are_overlapped(overlap: str, expected: int) -> None:
    repeat = f"every 10m; overlap={overlap}"
    assert due(repeat, scheduled=0, started=0, finished=35) == expected


def test_missed_ticks_are_made_up_for_before_overlapped_ones() -> None:
    repeat = "every 10m; missed=all:5; overlap=queue"
    assert due(repeat, scheduled=0, started=25, finished=45) == 10
    assert due(repeat, scheduled=20, started=25, finished=45) == 40


def test_a_run_made_up_for_is_followed_by_the_rest_of_the_missed_ones() -> None:
    runs = [0]
    while runs[-1] <= 35:
        runs.append(due("every 10m; missed=all:9", scheduled=runs[-1], started=35, finished=35))
    assert runs == [0, 10, 20, 30, 40]


def test_ticks_passed_without_any_start_are_all_missed() -> None:
    assert due("every 10m; missed=all:9", scheduled=0, started=None, finished=35) == 10


def test_a_run_before_its_time_uses_up_its_tick() -> None:
    assert due("every 10m", scheduled=30, started=12, finished=13) == 40


@pytest.mark.parametrize(
    ("missed", "expected"),
    [("skip", YEAR + SECOND), ("latest", YEAR), ("all:1000", YEAR - 999 * SECOND)],
)
def test_a_year_of_missed_seconds_is_not_walked_through(missed: str, expected: int) -> None:
    asked = 0

    class Counting(Grid):
        def latest(self, low: int, high: int) -> int | None:
            nonlocal asked
            asked += 1
            return super().latest(low, high)

    repeat = parse_repeat(f"every 1s; missed={missed}")
    assert isinstance(repeat, Every)
    line = Counting(0, SECOND)
    assert repeat.due_on(line, scheduled=0, started=YEAR, finished=YEAR) == expected
    assert asked <= 1000


def test_only_the_allow_policy_lets_runs_overlap() -> None:
    assert overlaps(parse_repeat("every 1m; overlap=allow"))
    assert not overlaps(parse_repeat("every 1m; overlap=queue"))


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("every 90m", "every 1h30m"),
        ("EVERY PT5M ; Overlap = Queue; missed=ALL", "every 5m; missed=all:100; overlap=queue"),
        ("every 5m; missed=latest; overlap=skip", "every 5m"),
        ("every 5m; missed=all:1", "every 5m"),
    ],
)
def test_an_interval_has_one_canonical_text(written: str, canonical: str) -> None:
    assert str(parse_repeat(written)) == canonical


@settings(deadline=None)
@given(
    st.builds(
        Every,
        st.integers(1, YEAR),
        missed=st.integers(0, 1000),
        overlap=st.sampled_from(["skip", "queue", "allow"]),
    )
)
def test_an_interval_reads_back_from_its_text(repeat: Every) -> None:
    assert parse_repeat(str(repeat)) == repeat


@pytest.mark.parametrize(
    ("malformed", "complaint"),
    [
        ("every", "cannot read the duration ''"),
        ("every now and then", "cannot read the duration 'now and then'"),
        ("every 0s", 'a microsecond to 1,000 years, such as "every 5m"'),
        ("every 5m; missed=none", "missed=none is unknown: choose missed=skip, missed=latest"),
        ("every 5m; missed=all:0", "missed=all:0 is unknown"),
        ("every 5m; missed=all:1001", "needs N from 1 to 1000"),
        ("every 5m; overlap=maybe", "overlap=maybe is unknown: choose overlap=skip, overlap=q"),
        ("every 5m; gap=skip", 'cannot use the option "gap=skip"'),
        ("every 5m; missed=skip; missed=all", 'cannot use the option "missed=all"'),
        ("every 5m;", 'cannot use the option ""'),
    ],
)
def test_a_malformed_interval_is_refused_with_a_hint(malformed: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        parse_repeat(malformed)
