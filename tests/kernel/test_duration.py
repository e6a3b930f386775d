"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.errors import BadInput
from stoker.kernel import duration

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30s", 30),
        ("10m", 600),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("1H30M", 5400),
        ("2d", 172_800),
        ("1w", 604_800),
        ("1.5h", 5400),
        ("PT5M", 300),
        ("P1DT2H", 93_600),
        ("P2W", 1_209_600),
        ("PT0.5S", 0.5),
        ("90", 90),
        (" 1.5 ", 1.5),
        ("250ms", 0.25),
        ("7us", 0.000_007),
        ("0s", 0),
        (90, 90),
        (0.1, 0.1),
        (timedelta(minutes=5, microseconds=3), 300.000_003),
    ],
)
def test_a_duration_may_be_written_in_many_ways(
    written: str | float | timedelta, seconds: float
) -> None:
    assert duration.micros(written) == round(seconds * SECOND)


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        "soon",
        "5x",
        "m",
        "30m1h",
        "1h1h",
        "P",
        "PT",
        "P5M",
        "P1Y",
        "5 M M",
        "1e3",
        "\u0663s",
    ],
)
def test_a_text_that_is_no_duration_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(BadInput, match=r"cannot read the duration .*1h30m"):
        duration.micros(written)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, None])
def test_a_value_that_is_no_number_of_seconds_is_refused(value: float) -> None:
    with pytest.raises(BadInput, match="cannot read the duration"):
        duration.micros(value)


@pytest.mark.parametrize("value", [-1, -0.5, timedelta(seconds=-1)])
def test_a_negative_duration_is_refused(value: float | timedelta) -> None:
    with pytest.raises(BadInput, match="negative"):
        duration.micros(value)


@pytest.mark.parametrize("value", ["4000000d", 10**15, 1e300, "999999999999999999w"])
def test_a_duration_of_more_than_ten_thousand_years_is_refused(value: str | float) -> None:
    with pytest.raises(BadInput, match="longer than 1,000 years"):
        duration.micros(value)


@pytest.mark.parametrize(
    ("micros", "written"),
    [
        (0, "0s"),
        (5400 * SECOND, "1h30m"),
        (250_000, "250ms"),
        (1_500_001, "1s500ms1us"),
        (10 * 86_400 * SECOND, "1w3d"),
    ],
)
def test_a_duration_is_rendered_compactly(micros: int, written: str) -> None:
    assert duration.text(micros) == written


@settings(deadline=None)
@given(st.integers(0, duration.LONGEST))
def test_a_rendered_duration_reads_back_as_itself(micros: int) -> None:
    assert duration.micros(duration.text(micros)) == micros
