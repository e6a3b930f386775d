"""Repeat by pattern: SCHEDULED, STARTED or FINISHED and the steps from there."""

from __future__ import annotations

import time
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.errors import BadInput
from stoker.kernel.pattern import Pattern
from stoker.kernel.repeat import first_due, next_due, overlaps, parse_repeat, preview

HOUR = 3_600_000_000


def utc(text: str) -> int:
    return int(datetime.fromisoformat(text + "+00:00").timestamp()) * 1_000_000


def after_a_run(repeat: str, *, finished: str) -> int:
    end = utc(finished)
    return next_due(parse_repeat(repeat), scheduled=end, started=end, finished=end)


@pytest.mark.parametrize(
    ("base", "due"), [("SCHEDULED", "14:00"), ("STARTED", "14:15"), ("FINISHED", "14:45")]
)
def test_the_base_says_from_where_to_count(base: str, due: str) -> None:
    repeat = parse_repeat(f"{base}, +1 HOUR")
    assert next_due(
        repeat,
        scheduled=utc("2026-05-04 13:00:00"),
        started=utc("2026-05-04 13:15:00"),
        finished=utc("2026-05-04 13:45:00"),
    ) == utc(f"2026-05-04 {due}:00")


def test_a_run_that_never_started_counts_from_its_end() -> None:
    repeat = parse_repeat("STARTED, +1 HOUR")
    assert next_due(repeat, scheduled=0, started=None, finished=HOUR) == 2 * HOUR


@pytest.mark.parametrize(
    ("repeat", "due"),
    [
        ("FINISHED, +90 SECONDS", "2024-05-17 10:21:30"),
        ("FINISHED, +90 MINUTES", "2024-05-17 11:50:00"),
        ("FINISHED, -2 HOURS", "2024-05-17 08:20:00"),
        ("FINISHED, +1 DAY", "2024-05-18 10:20:00"),
        ("FINISHED, -1 MONTH", "2024-04-17 10:20:00"),
        ("FINISHED, +2 YEARS", "2026-05-17 10:20:00"),
        ("FINISHED, START OF HOUR", "2024-05-17 10:00:00"),
        ("FINISHED, START OF DAY", "2024-05-17 00:00:00"),
        ("FINISHED, START OF MONTH", "2024-05-01 00:00:00"),
        ("FINISHED, START OF YEAR", "2024-01-01 00:00:00"),
        ("FINISHED, WEEKDAY 1", "2024-05-20 10:20:00"),
        ("FINISHED, +1 DAY, START OF DAY, +4 HOURS", "2024-05-18 04:00:00"),
        ("FINISHED, +1 DAY, WEEKDAY 1, START OF DAY, +6 HOURS", "2024-05-20 06:00:00"),
        ("HOURLY", "2024-05-17 11:20:00"),
        ("DAILY", "2024-05-18 10:20:00"),
        ("WEEKLY", "2024-05-24 10:20:00"),
    ],
)
def test_the_steps_are_taken_one_after_the_other(repeat: str, due: str) -> None:
    assert after_a_run(repeat, finished="2024-05-17 10:20:00") == utc(due)


def test_the_weekly_pattern_moves_on_from_a_monday_morning() -> None:
    repeat = "FINISHED, +1 DAY, WEEKDAY 1, START OF DAY, +6 HOURS"
    assert after_a_run(repeat, finished="2024-05-20 06:10:00") == utc("2024-05-27 06:00:00")


def test_a_job_repeating_from_scheduled_catches_up_run_by_run() -> None:
    repeat = parse_repeat("SCHEDULED, +1 HOUR")
    now = utc("2026-05-04 13:30:00")
    due = utc("2026-05-04 10:00:00")
    made_up = 0
    while due <= now:
        due = next_due(repeat, scheduled=due, started=now, finished=now)
        made_up += due <= now
    assert made_up == 3
    assert due == utc("2026-05-04 14:00:00")


def test_a_time_is_cut_to_whole_seconds() -> None:
    repeat = parse_repeat("FINISHED, +1 SECOND")
    assert next_due(repeat, scheduled=0, started=0, finished=1_999_999) == 2_000_000


def test_the_first_run_of_a_pattern_is_due_now() -> None:
    assert first_due(parse_repeat("WEEKLY"), now=12_345) == 12_345


def test_a_pattern_never_overlaps() -> None:
    assert not overlaps(parse_repeat("HOURLY"))


def test_a_preview_takes_the_pattern_from_run_to_run() -> None:
    runs = preview(parse_repeat("SCHEDULED, +1 MONTH"), after=utc("2026-01-31 00:00:00"), count=3)
    assert runs == [
        utc("2026-03-03 00:00:00"),
        utc("2026-04-03 00:00:00"),
        utc("2026-05-03 00:00:00"),
    ]


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("hourly", "HOURLY"),
        ("finished,+1 day", "FINISHED, +1 DAY"),
        ("Scheduled,   start of hour,,  +1 Hour,", "SCHEDULED, START OF HOUR, +1 HOUR"),
    ],
)
def test_a_pattern_is_kept_in_upper_case(written: str, canonical: str) -> None:
    assert str(parse_repeat(written)) == canonical
    assert parse_repeat(canonical) == parse_repeat(written)


steps = st.one_of(
    st.builds("{}{} MINUTES".format, st.sampled_from("+-"), st.integers(0, 999)),
    st.builds("+{} SECOND".format, st.integers(0, 99_999_999)),
    st.sampled_from(["START OF HOUR", "START OF YEAR", "WEEKDAY 6"]),
)
bases = st.sampled_from(["SCHEDULED", "STARTED", "FINISHED"])


@settings(deadline=None)
@given(
    st.builds(lambda base, moves: (base, *moves), bases, st.lists(steps, min_size=1, max_size=5))
    | st.sampled_from([("HOURLY",), ("DAILY",), ("WEEKLY",)])
)
def test_a_pattern_reads_back_from_its_text(words: tuple[str, ...]) -> None:
    repeat = Pattern(words)
    assert parse_repeat(str(repeat)) == repeat
    assert parse_repeat(str(repeat).lower()) == repeat


@pytest.mark.parametrize(
    ("malformed", "complaint"),
    [
        ("", "begin a pattern with"),
        ("sometimes", 'cannot read the repeat "SOMETIMES".*every 5m.*cron 0 5'),
        ("+1 DAY", "begin a pattern with"),
        ("FINISHED", 'needs a step, as in "FINISHED, [+]1 DAY"'),
        ("FINISHED,", "needs a step"),
        ("FINISHED , +1 DAY", "begin a pattern with"),
        ("FINISHED, +1 DAY ", r'cannot read the modifier "\+1 DAY "'),
        ("FINISHED, 1 DAY", 'cannot read the modifier "1 DAY"'),
        ("FINISHED, + 1 HOUR", "cannot read the modifier"),
        ("FINISHED, +1 WEEK", "cannot read the modifier"),
        ("FINISHED, localtime", "cannot read the modifier"),
        ("DAILY, +1 HOUR", "begin a pattern with"),
        ("HOURLY ", "begin a pattern with"),
        ("FINI\u017fHED, +1 DAY", "begin a pattern with"),
        ("FINISHED" + ", +999 YEARS" * 9, "out of the years 0000 to 9999"),
        ("FINISHED" + ", +1 DAY" * 200, "may have 1000 characters"),
    ],
)
def test_a_malformed_repeat_is_refused_with_a_hint(malformed: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        parse_repeat(malformed)


@pytest.mark.parametrize("machine_zone", ["Asia/Tokyo", "America/New_York"])
def test_the_zone_of_the_machine_has_no_influence(
    machine_zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeats = {
        "FINISHED, +1 DAY, START OF DAY": "2026-05-05 00:00:00",
        "cron 0 5 * * *": "2026-05-05 05:00:00",
        "cron 0 5 * * * in Europe/Berlin": "2026-05-05 03:00:00",
        "every 1h": "2026-05-04 14:45:00",
    }
    try:
        with monkeypatch.context() as patch:
            patch.setenv("TZ", machine_zone)
            time.tzset()
            assert time.tzname[0] in {"JST", "EST"}
            for repeat, due in repeats.items():
                assert after_a_run(repeat, finished="2026-05-04 13:45:00") == utc(due)
    finally:
        time.tzset()
