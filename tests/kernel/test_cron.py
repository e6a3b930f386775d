"""Repeat by cron, above all where clocks jump.

In 2026 Berlin goes from 02:00 to 03:00 on March 29 and from 03:00 to 02:00 on October 25; New York
from 02:00 to 03:00 on March 8 and from 02:00 to 01:00 on November 1.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.errors import BadInput
from stoker.kernel.cron import Cron
from stoker.kernel.repeat import first_due, next_due, overlaps, parse_repeat, preview

SECOND = 1_000_000
HOUR = 3600 * SECOND
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at(text: str) -> int:
    """A moment by its local time and offset."""
    moment = datetime.fromisoformat(text)
    assert moment.tzinfo is not None
    return (moment - EPOCH) // timedelta(microseconds=1)


def runs(repeat: str, *, after: str, count: int) -> list[int]:
    return preview(parse_repeat(repeat), after=at(after), count=count)


def due(repeat: str, *, scheduled: str, started: str, finished: str) -> int:
    return next_due(
        parse_repeat(repeat), scheduled=at(scheduled), started=at(started), finished=at(finished)
    )


def ticks_between(cron: Cron, low: int, high: int) -> list[int]:
    found = [cron.after(low)]
    while found[-1] <= high:
        found.append(cron.after(found[-1]))
    return found[:-1]


def test_the_first_run_is_the_first_tick_to_come() -> None:
    repeat = parse_repeat("cron 0 5 * * mon-fri")
    friday = at("2026-05-08 05:00+00:00")
    assert first_due(repeat, now=friday - 1) == friday
    assert first_due(repeat, now=friday) == at("2026-05-11 05:00+00:00")


def test_the_ticks_follow_the_clock_of_the_zone() -> None:
    assert runs("cron 0 5 * * * in Europe/Berlin", after="2026-03-28 00:00+00:00", count=2) == [
        at("2026-03-28 05:00+01:00"),
        at("2026-03-29 05:00+02:00"),
    ]


def test_six_fields_begin_with_the_seconds() -> None:
    assert runs("cron */20 0 0 * * *", after="2026-05-04 00:00:20+00:00", count=2) == [
        at("2026-05-04 00:00:40+00:00"),
        at("2026-05-05 00:00:00+00:00"),
    ]


@pytest.mark.parametrize(
    ("alias", "first"),
    [
        ("@hourly", "2026-05-06 11:00+00:00"),
        ("@daily", "2026-05-07 00:00+00:00"),
        ("@Midnight", "2026-05-07 00:00+00:00"),
        ("@weekly", "2026-05-10 00:00+00:00"),
        ("@monthly", "2026-06-01 00:00+00:00"),
        ("@yearly", "2027-01-01 00:00+00:00"),
    ],
)
def test_an_alias_stands_for_an_expression(alias: str, first: str) -> None:
    assert runs(f"cron {alias}", after="2026-05-06 10:30+00:00", count=1) == [at(first)]


@pytest.mark.parametrize(
    ("repeat", "before", "ticks"),
    [
        (
            "cron 30 2 * * * in Europe/Berlin",
            "2026-03-28 12:00+01:00",
            ["2026-03-29 03:00+02:00", "2026-03-30 02:30+02:00"],
        ),
        (
            "cron 30 2 * * * in America/New_York",
            "2026-03-07 12:00-05:00",
            ["2026-03-08 03:00-04:00", "2026-03-09 02:30-04:00"],
        ),
        (
            "cron 0,15,30 2,3 * * * in Europe/Berlin",
            "2026-03-28 12:00+01:00",
            ["2026-03-29 03:00+02:00", "2026-03-29 03:15+02:00", "2026-03-29 03:30+02:00"],
        ),
        (
            "cron 15 2 * * * in Australia/Lord_Howe",
            "2026-10-03 12:00+10:30",
            ["2026-10-04 02:30+11:00", "2026-10-05 02:15+11:00"],
        ),
        (
            "cron 30 2 * * * in Europe/Berlin; gap=skip",
            "2026-03-28 12:00+01:00",
            ["2026-03-30 02:30+02:00"],
        ),
        (
            "cron */30 * * * * in Europe/Berlin",
            "2026-03-29 01:00+01:00",
            ["2026-03-29 01:30+01:00", "2026-03-29 03:00+02:00", "2026-03-29 03:30+02:00"],
        ),
        (
            "cron 15 * * * * in Europe/Berlin",
            "2026-03-29 01:00+01:00",
            ["2026-03-29 01:15+01:00", "2026-03-29 03:15+02:00"],
        ),
    ],
)
def test_in_the_missing_hour_of_spring(repeat: str, before: str, ticks: list[str]) -> None:
    assert runs(repeat, after=before, count=len(ticks)) == [at(tick) for tick in ticks]


@pytest.mark.parametrize(
    ("repeat", "before", "ticks"),
    [
        (
            "cron 30 2 * * * in Europe/Berlin",
            "2026-10-24 12:00+02:00",
            ["2026-10-25 02:30+02:00", "2026-10-26 02:30+01:00"],
        ),
        (
            "cron 30 1 * * * in America/New_York",
            "2026-10-31 12:00-04:00",
            ["2026-11-01 01:30-04:00", "2026-11-02 01:30-05:00"],
        ),
        (
            "cron 0 30 1 * * * in America/New_York",
            "2026-10-31 12:00-04:00",
            ["2026-11-01 01:30-04:00", "2026-11-02 01:30-05:00"],
        ),
        (
            "cron */30 2 * * * in Europe/Berlin",
            "2026-10-24 12:00+02:00",
            ["2026-10-25 02:00+02:00", "2026-10-25 02:30+02:00", "2026-10-26 02:00+01:00"],
        ),
        (
            "cron 0,30 2 * * * in Europe/Berlin; fold=both",
            "2026-10-24 12:00+02:00",
            [
                "2026-10-25 02:00+02:00",
                "2026-10-25 02:30+02:00",
                "2026-10-25 02:00+01:00",
                "2026-10-25 02:30+01:00",
                "2026-10-26 02:00+01:00",
            ],
        ),
        (
            "cron */30 * * * * in Europe/Berlin",
            "2026-10-25 01:30+02:00",
            [
                "2026-10-25 02:00+02:00",
                "2026-10-25 02:30+02:00",
                "2026-10-25 02:00+01:00",
                "2026-10-25 02:30+01:00",
                "2026-10-25 03:00+01:00",
            ],
        ),
    ],
)
def test_in_the_repeated_hour_of_autumn(repeat: str, before: str, ticks: list[str]) -> None:
    assert runs(repeat, after=before, count=len(ticks)) == [at(tick) for tick in ticks]


OUTAGE = {
    "scheduled": "2026-05-04 05:00+00:00",
    "started": "2026-05-08 12:00+00:00",
    "finished": "2026-05-10 12:00+00:00",
}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("missed=skip", "2026-05-11 05:00+00:00"),
        ("missed=latest", "2026-05-08 05:00+00:00"),
        ("missed=all:3", "2026-05-06 05:00+00:00"),
        ("missed=all:99", "2026-05-05 05:00+00:00"),
        ("missed=skip; overlap=queue", "2026-05-10 05:00+00:00"),
        ("missed=skip; overlap=allow", "2026-05-11 05:00+00:00"),
    ],
)
def test_missed_and_overlapped_ticks_are_made_up_for_by_policy(options: str, expected: str) -> None:
    assert due(f"cron 0 5 * * *; {options}", **OUTAGE) == at(expected)


def test_a_tick_moved_out_of_the_gap_is_made_up_for_once() -> None:
    repeat = "cron 0,30 2 * * * in Europe/Berlin; missed=all:10"
    missed = {"started": "2026-03-29 12:00+02:00", "finished": "2026-03-29 12:01+02:00"}
    after_gap = "2026-03-29 03:00+02:00"
    assert due(repeat, scheduled="2026-03-28 02:30+01:00", **missed) == at(after_gap)
    assert due(repeat, scheduled=after_gap, **missed) == at("2026-03-30 02:00+02:00")


def test_in_the_second_pass_of_the_repeated_hour_the_first_pass_is_remembered() -> None:
    assert due(
        "cron 40 2 * * * in Europe/Berlin",
        scheduled="2026-10-24 02:40+02:00",
        started="2026-10-25 02:10+01:00",
        finished="2026-10-25 02:11+01:00",
    ) == at("2026-10-25 02:40+02:00")


def test_years_of_missed_seconds_are_not_walked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    advance, reverse = CronSim.advance, CronSim.reverse

    def counted(step: object) -> object:
        def count(self: CronSim) -> None:
            nonlocal steps
            steps += 1
            step(self)  # type: ignore[operator]

        return count

    monkeypatch.setattr(CronSim, "advance", counted(advance))
    monkeypatch.setattr(CronSim, "reverse", counted(reverse))
    assert due(
        "cron * * * * * *; missed=all:50",
        scheduled="2016-05-04 05:00+00:00",
        started="2026-05-04 05:00+00:00",
        finished="2026-05-04 05:00+00:00",
    ) == at("2026-05-04 04:59:11+00:00")
    assert steps <= 60


dst_weeks = st.sampled_from(
    [
        ("Europe/Berlin", "2026-03-28 12:00+00:00"),
        ("Europe/Berlin", "2026-10-24 12:00+00:00"),
        ("America/New_York", "2026-03-07 18:00+00:00"),
        ("America/New_York", "2026-10-31 18:00+00:00"),
        ("Australia/Lord_Howe", "2026-10-03 03:00+00:00"),
        ("Australia/Lord_Howe", "2026-04-04 03:00+00:00"),
        ("America/Havana", "2026-10-31 18:00+00:00"),
        ("UTC", "2026-05-04 00:00+00:00"),
    ]
)
minutes = st.sampled_from(["0", "30", "10,50", "5-20/5"])
hours = st.sampled_from(["0", "1", "2", "1,2", "0-3", "2,3", "23"])
starred_hours = st.sampled_from(["*", "*/2"])


@settings(max_examples=60, deadline=None)
@given(
    dst_weeks,
    minutes,
    hours | starred_hours,
    st.sampled_from(["after", "skip"]),
    st.sampled_from(["once", "both"]),
    st.lists(st.integers(0, 36 * 60), min_size=2, max_size=2, unique=True).map(sorted),
)
def test_looking_back_finds_the_ticks_that_looking_ahead_found(
    week: tuple[str, str], minute: str, hour: str, gap: str, fold: str, between: list[int]
) -> None:
    cron = Cron(f"{minute} {hour} * * *", week[0], gap, fold)  # type: ignore[arg-type]
    low, high = (at(week[1]) + offset * 60 * SECOND for offset in between)
    ahead = ticks_between(cron, low, high)
    back: list[int] = []
    while (tick := cron.latest(low, high if not back else back[-1] - 1)) is not None:
        back.append(tick)
    assert back == ahead[::-1]


@settings(max_examples=60, deadline=None)
@given(dst_weeks, minutes, starred_hours, st.sampled_from(["after", "skip"]))
def test_a_starred_hour_runs_at_every_real_moment_the_clock_matches(
    week: tuple[str, str], minute: str, hour: str, gap: str
) -> None:
    zone, start = ZoneInfo(week[0]), at(week[1])
    cron = Cron(f"{minute} {hour} * * *", week[0], gap)  # type: ignore[arg-type]
    matcher = CronSim(cron.expression, EPOCH)
    expected = []
    for moment in range(start + 60 * SECOND, start + 24 * HOUR + 1, 60 * SECOND):
        wall = (EPOCH + timedelta(microseconds=moment)).astimezone(zone)
        if wall.minute in matcher.minutes and wall.hour in matcher.hours:
            expected.append(moment)
    assert ticks_between(cron, start, start + 24 * HOUR) == expected


@settings(max_examples=60, deadline=None)
@given(dst_weeks, minutes, hours)
def test_a_fixed_time_runs_once_a_day_wherever_the_clock_jumps(
    week: tuple[str, str], minute: str, hour: str
) -> None:
    """cronsim has the same habit by default, and its own way to it."""
    cron = Cron(f"{minute} {hour} * * *", week[0])
    start = at(week[1])
    there = (EPOCH + timedelta(microseconds=start)).astimezone(ZoneInfo(week[0]))
    simulated = CronSim(cron.expression, there)
    # Walls in the gap all land right behind it; we count that moment once.
    expected = list(dict.fromkeys(at(next(simulated).isoformat()) for _ in range(20)))
    assert preview(cron, after=start, count=len(expected)) == expected


def test_every_second_goes_on_through_the_repeated_hour() -> None:
    repeat = "cron * * * * * * in Europe/Berlin"
    around = runs(repeat, after="2026-10-25 02:59:57+02:00", count=4)
    assert around[2] == at("2026-10-25 02:00:00+01:00")
    assert {later - earlier for earlier, later in pairwise(around)} == {SECOND}


def test_only_the_allow_policy_lets_runs_overlap() -> None:
    assert overlaps(parse_repeat("cron @daily; overlap=allow"))
    assert not overlaps(parse_repeat("cron @daily"))


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("cron @daily", "cron 0 0 * * *"),
        ("CRON  0  5 * *\tmon-fri", "cron 0 5 * * MON-FRI"),
        ("cron 0 5 * * * in UTC; gap=after", "cron 0 5 * * *"),
        (
            "cron 0 5 l * * IN Europe/Berlin;FOLD=both;gap=skip;overlap=queue;missed=all:7",
            "cron 0 5 L * * in Europe/Berlin; missed=all:7; overlap=queue; gap=skip; fold=both",
        ),
    ],
)
def test_a_cron_repeat_has_one_canonical_text(written: str, canonical: str) -> None:
    assert str(parse_repeat(written)) == canonical


@settings(max_examples=50, deadline=None)
@given(
    st.builds(
        Cron,
        st.builds("{} {} * * {}".format, minutes, hours, st.sampled_from(["*", "mon-fri", "5#3"])),
        st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
        st.sampled_from(["after", "skip"]),
        st.sampled_from(["once", "both"]),
        missed=st.integers(0, 1000),
        overlap=st.sampled_from(["skip", "queue", "allow"]),
    )
)
def test_a_cron_repeat_reads_back_from_its_text(repeat: Cron) -> None:
    assert parse_repeat(str(repeat)) == repeat


@pytest.mark.parametrize(
    ("malformed", "complaint"),
    [
        ("cron", "wrong number of fields"),
        ("cron 0 5 * *", "wrong number of fields.*as in .cron 0 5"),
        ("cron 61 5 * * *", "bad minute"),
        ("cron 0 5 * * moo", "bad day-of-week"),
        ("cron @reboot", "wrong number of fields.*@hourly"),
        ("cron 0 5 * * \u017fun", "only plain letters"),
        ("cron 0 0 31 2 *", "bad day-of-month"),
        ("cron 0 0 30 2 *", "bad day-of-month"),
        ("cron 0 0 */15 * 1#2", "never comes within 50 years"),
        ("cron 30 2 * 3 0L in Europe/Berlin; gap=skip", "never comes within 50 years"),
        ("cron 0 5 * * * in Berlin", 'no time zone "Berlin".*Europe/Berlin'),
        ("cron 0 5 * * * in Europe", 'no time zone "Europe"'),
        ("cron 0 5 * * * in ../../etc/passwd", "no time zone"),
        ("cron 0 5 * * * in localtime", 'no time zone "localtime"'),
        ("cron 0 5 * * *; gap=before", "gap=before is unknown: choose gap=after, gap=skip"),
        ("cron 0 5 * * *; fold=never", "fold=never is unknown: choose fold=once, fold=both"),
        ("cron 0 5 * * *; when=now", 'cannot use the option "when=now".*gap=after'),
    ],
)
def test_a_malformed_cron_repeat_is_refused_with_a_hint(malformed: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        parse_repeat(malformed)


@pytest.mark.parametrize("year", [1, 9999])
def test_a_time_at_the_ends_of_the_calendar_is_refused(year: int) -> None:
    with pytest.raises(BadInput, match="outside the years 2 to 9998"):
        first_due(parse_repeat("cron @daily"), now=at(f"{year:04}-06-01 00:00+00:00"))


def test_a_search_that_reaches_the_end_of_the_calendar_is_refused() -> None:
    with pytest.raises(BadInput, match="never comes"):
        first_due(parse_repeat("cron 0 0 29 2 *"), now=at("9998-06-01 00:00+00:00"))
