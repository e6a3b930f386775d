"""Rates: never more in a period than is allowed, and never later than need be."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import BadInput
from stoker.kernel.rate import Flow, Rate, parse_rate

SECOND = 1_000_000
MINUTE = 60 * SECOND


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100 per minute", Rate(100, MINUTE)),
        ("100 per minutes", Rate(100, MINUTE)),
        ("5/10s", Rate(5, 10 * SECOND)),
        ("0.5 / second", Rate(0.5, SECOND)),
        ("1000 per day, fixed", Rate(1000, 86_400 * SECOND, fixed=True)),
        ("10 per second, burst 50", Rate(10, SECOND, burst=50)),
        ("10 PER SECOND burst 50", Rate(10, SECOND, burst=50)),
        ("3 per 1h30m", Rate(3, 5400 * SECOND)),
        ("10/s", Rate(10, SECOND)),
        ("1234567.125 per m", Rate(1234567.125, MINUTE)),
    ],
)
def test_a_rate_is_read_as_people_write_it_and_written_so_that_it_can_be_read(
    text: str, rate: Rate
) -> None:
    assert parse_rate(text) == rate
    assert parse_rate(str(rate)) == rate


def test_a_rate_is_shown_as_it_is_said() -> None:
    shown = [str(parse_rate(text)) for text in ("60/m", "5/10s, fixed", "2.5/7d")]
    assert shown == ["60 per minute", "5 per 10s, fixed", "2.5 per week"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "many", "10", "10 per", "0 per minute", "-1 per minute", "1 per 0s", "1 per 2 years"),
        *("1.2.3 per s", "5 per minute, fixed, burst 3", "0.0001 per s"),
    ],
)
def test_what_is_no_rate_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(BadInput):
        parse_rate(text)


@pytest.mark.parametrize("beyond", [1e9 + 1, 2**63, 10**30, float("inf"), float("nan"), True, "5"])
def test_more_than_a_thousand_million_is_no_amount_of_a_rate(beyond: Any) -> None:
    with pytest.raises(BadInput, match="the amount of a rate must be a number from 0 to 1,000,000"):
        Rate(beyond, SECOND)
    with pytest.raises(BadInput, match="the burst of a rate must be a number from 0 to 1,000,000"):
        Rate(1, SECOND, burst=beyond)


@pytest.mark.parametrize("period", [999, 367 * 86_400 * SECOND, 10**30, 1e6, float("nan"), True])
def test_a_period_is_a_year_at_most(period: Any) -> None:
    with pytest.raises(BadInput, match="between a millisecond and a year"):
        Rate(1, period)


def test_a_burst_comes_again_within_a_hundred_years() -> None:
    assert parse_rate("1 per 366d, burst 100").burst == 100
    with pytest.raises(BadInput, match="within 100 years; give the rate a smaller one, or a great"):
        parse_rate("1 per 366d, burst 101")


def admitted(rate: Rate, arrivals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Which of these (time, weight) may start when they come, the state carried along as text."""
    state, entered = "", []
    for now, weight in arrivals:
        flow = Flow(rate, state, now)
        if flow.free_at(weight) is None:
            flow.take(weight)
            state = flow.state
            entered.append((now, weight))
    return entered


gaps = st.lists(
    st.tuples(st.integers(0, 40_000_000), st.sampled_from([250, 1000, 2000])), max_size=60
)


def arriving(gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    times = accumulate((gap for gap, _ in gaps), initial=1_700_000_000_000_000)
    return list(zip(times, (weight for _, weight in gaps), strict=False))


@given(gaps=gaps, amount=st.sampled_from([2, 3, 7.5]))
def test_no_period_wherever_it_begins_sees_more_than_the_amount(
    gaps: list[tuple[int, int]], amount: float
) -> None:
    entered = admitted(Rate(amount, MINUTE), arriving(gaps))
    for begin, _ in entered:
        inside = sum(weight for at, weight in entered if begin <= at < begin + MINUTE)
        assert inside <= amount * 1000


@given(gaps=gaps)
def test_no_fixed_period_sees_more_than_the_amount(gaps: list[tuple[int, int]]) -> None:
    entered = admitted(Rate(3, MINUTE, fixed=True), arriving(gaps))
    by_period: dict[int, int] = {}
    for at, weight in entered:
        by_period[at // MINUTE] = by_period.get(at // MINUTE, 0) + weight
    assert all(units <= 3000 for units in by_period.values())


@given(gaps=gaps)
def test_a_bucket_gives_no_more_than_its_burst_and_what_was_filled_in(
    gaps: list[tuple[int, int]],
) -> None:
    entered = admitted(Rate(6, MINUTE, burst=4), arriving(gaps))
    for first, (begin, _) in enumerate(entered):
        units = 0
        for at, weight in entered[first:]:
            units += weight
            assert units <= 4000 + 6000 * (at - begin) / MINUTE + 1


@given(gaps=gaps, kind=st.sampled_from(["2 per 30s", "2 per 30s, fixed", "4 per minute, burst 3"]))
def test_who_is_refused_may_start_at_the_moment_that_is_named_and_not_before(
    gaps: list[tuple[int, int]], kind: str
) -> None:
    rate, state = parse_rate(kind), ""
    for now, weight in arriving(gaps):
        flow = Flow(rate, state, now)
        moment = flow.free_at(weight)
        if moment is None:
            flow.take(weight)
            state = flow.state
            continue
        assert moment > now
        assert Flow(rate, state, moment).free_at(weight) is None
        assert Flow(rate, state, moment - 1).free_at(weight) is not None


def test_what_is_heavier_than_the_rate_starts_when_nothing_else_has() -> None:
    for text in ("1 per minute", "1 per minute, fixed", "1 per minute, burst 1"):
        assert admitted(parse_rate(text), [(MINUTE, 5000), (MINUTE + 1, 250)]) == [(MINUTE, 5000)]


def test_what_was_remembered_under_another_kind_of_rate_counts_for_nothing() -> None:
    now = 1_700_000_000_000_000
    kinds = [
        Rate(1, MINUTE),
        Rate(1, SECOND),
        Rate(1, MINUTE, fixed=True),
        Rate(1, MINUTE, burst=1),
    ]
    for before in kinds:
        for after in kinds:
            flow = Flow(before, "", now)
            flow.take(1000)
            assert (Flow(after, flow.state, now).free_at(1000) is None) == (before != after)


ONE_A_MINUTE = pytest.mark.parametrize(
    "text", ["1 per minute", "1 per minute, fixed", "1 per minute, burst 1"]
)


@ONE_A_MINUTE
def test_a_clock_that_was_set_back_a_little_lets_nobody_in_twice(text: str) -> None:
    now = 1_700_000_000_000_000
    flow = Flow(parse_rate(text), "", now)
    flow.take(1000)
    assert Flow(parse_rate(text), flow.state, now - 50 * SECOND).free_at(1000) is not None


@ONE_A_MINUTE
def test_a_clock_that_was_set_back_by_more_than_two_periods_keeps_nobody_waiting(
    text: str,
) -> None:
    now = 1_700_000_000_000_000
    flow = Flow(parse_rate(text), "", now)
    flow.take(5000)
    assert Flow(parse_rate(text), flow.state, now + 59 * SECOND - MINUTE).free_at(1000)
    later = Flow(parse_rate(text), flow.state, now - 121 * SECOND)
    assert later.free_at(1000) is None
    later.take(1000)
    assert Flow(parse_rate(text), later.state, now - 121 * SECOND).free_at(1000) is not None


def test_when_it_is_over_it_is_as_if_nothing_had_happened() -> None:
    now = 1_700_000_000_000_000
    for text in ("2 per minute", "2 per minute, fixed", "2 per minute, burst 2"):
        flow = Flow(parse_rate(text), "", now)
        flow.take(2000)
        assert Flow(parse_rate(text), flow.state, flow.until).free_at(2000) is None
