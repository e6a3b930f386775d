"""Our date modifiers against those of SQLite."""

from __future__ import annotations

from datetime import datetime

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stoker.errors import BadInput
from stoker.kernel.sqlite_time import apply_modifier, modifier_valid

SECOND = 1_000_000
YEAR_0000 = -62_167_219_200
YEAR_9999_ENDS = 253_402_300_799

sqlite = apsw.Connection(":memory:")


def utc(text: str) -> int:
    return int(datetime.fromisoformat(text + "+00:00").timestamp()) * SECOND


def amounts(units: list[str], most: int) -> st.SearchStrategy[str]:
    return st.builds(
        "{}{} {}{}".format,
        st.sampled_from("+-"),
        st.integers(0, most),
        st.sampled_from(units),
        st.sampled_from(["", "S", "s"]),
    )


modifiers = st.one_of(
    amounts(["YEAR", "MONTH", "DAY", "hour", "Minute"], 999),
    amounts(["SECOND", "second"], 99_999_999),
    st.sampled_from(["START OF DAY", "START OF MONTH", "START OF YEAR", "start of day"]),
    st.integers(0, 6).map("WEEKDAY {}".format),
)
# Month ends are where the arithmetic is hard, so that half of the times are near one.
month_ends = st.builds(
    lambda year, month, slip: utc(f"{year:04}-{month:02}-01 12:34:56") // SECOND + slip * 86_400,
    st.integers(1, 9999),
    st.integers(1, 12),
    st.integers(-3, 0),
)
times = st.integers(YEAR_0000, YEAR_9999_ENDS) | month_ends


@settings(max_examples=500, deadline=None)
@given(times, modifiers, st.integers(0, SECOND - 1))
@example(utc("2023-01-31 10:00:00") // SECOND, "+1 MONTH", 0)
@example(YEAR_0000, "-1 DAY", 0)
@example(YEAR_9999_ENDS, "+1 SECOND", 0)
def test_every_modifier_does_what_sqlite_does(seconds: int, modifier: str, fraction: int) -> None:
    """A result SQLite cannot tell, or a year below 0000, is refused."""
    ((answer, answer_seconds),) = sqlite.execute(
        "SELECT moved, unixepoch(moved) FROM (SELECT datetime(?1, 'unixepoch', ?2) AS moved)",
        (seconds, modifier),
    )
    if answer is None or answer.startswith("-"):
        with pytest.raises(BadInput, match="out of the years 0000 to 9999"):
            apply_modifier(seconds * SECOND + fraction, modifier)
    else:
        assert apply_modifier(seconds * SECOND + fraction, modifier) == answer_seconds * SECOND


@pytest.mark.parametrize(
    ("start", "modifier", "result"),
    [
        ("2023-01-31 10:00:00", "+1 MONTH", "2023-03-03 10:00:00"),
        ("2024-01-31 10:00:00", "+1 MONTH", "2024-03-02 10:00:00"),
        ("2023-03-31 10:00:00", "-1 MONTH", "2023-03-03 10:00:00"),
        ("2024-02-29 10:00:00", "+1 YEAR", "2025-03-01 10:00:00"),
        ("2024-05-17 10:11:12", "START OF DAY", "2024-05-17 00:00:00"),
        ("2024-05-17 10:11:12", "START OF MONTH", "2024-05-01 00:00:00"),
        ("2024-05-17 10:11:12", "START OF YEAR", "2024-01-01 00:00:00"),
        ("2024-05-17 10:00:00", "WEEKDAY 1", "2024-05-20 10:00:00"),
        ("2024-05-17 10:00:00", "WEEKDAY 5", "2024-05-17 10:00:00"),
        ("2024-05-17 10:00:00", "WEEKDAY 0", "2024-05-19 10:00:00"),
        ("2024-05-17 10:00:00", "-999 MINUTES", "2024-05-16 17:21:00"),
        ("2024-05-17 10:00:00", "+99999999 SECONDS", "2027-07-18 19:46:39"),
        ("2024-05-17 10:00:00", "+5 hours", "2024-05-17 15:00:00"),
    ],
)
def test_a_modifier_moves_a_time(start: str, modifier: str, result: str) -> None:
    assert apply_modifier(utc(start), modifier) == utc(result)


@pytest.mark.parametrize("text", ["+5 SECONDS", "-1 hour", "start of day", "Weekday 3", "+007 DAY"])
def test_a_single_modifier_is_valid_in_any_case(text: str) -> None:
    assert modifier_valid(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5 SECONDS",
        "+1000 DAYS",
        "+123456789 SECONDS",
        "+1.5 DAYS",
        "+1  DAY",
        "+1 DAY ",
        "+ 1 DAY",
        "+1 WEEK",
        "+1 DAYSS",
        "+1 DAY, +1 DAY",
        "START OF HOUR",
        "START OF WEEK",
        "WEEKDAY 7",
        "localtime",
        "utc",
        "+1 \u017fECOND",
        "+\u0661 DAY",
        "+1 DAY\n",
    ],
)
def test_anything_else_is_no_modifier(text: str) -> None:
    assert not modifier_valid(text)
    with pytest.raises(BadInput, match="cannot read the modifier"):
        apply_modifier(0, text)
