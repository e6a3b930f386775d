"""Retry policies of every kind, to draw from."""

from __future__ import annotations

from hypothesis import strategies as st

from stoker.kernel.duration import LONGEST
from stoker.kernel.retry import (
    ByError,
    Custom,
    Exponential,
    Failure,
    Fixed,
    Linear,
    Listed,
    Never,
)

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
YEAR = 365 * 24 * HOUR
NOW = 1_800_000_000 * SECOND
ALMOST_ONE = 1 - 2**-53

BOOM = Failure(("builtins.ValueError", "builtins.Exception", "builtins.BaseException"), "boom")

DELAYS = st.integers(0, LONGEST) | st.integers(0, 2 * HOUR)
LIMITS = st.none() | st.integers(0, 1_000_000_000)
NAMES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1)
DICE = st.floats(0, 1, exclude_max=True)


@st.composite
def linears(draw: st.DrawFn) -> Linear:
    first = draw(DELAYS)
    return Linear(first, draw(DELAYS), draw(st.integers(first, LONGEST)), draw(LIMITS))


@st.composite
def exponentials(draw: st.DrawFn, longest: int = LONGEST) -> Exponential:
    base = draw(st.integers(1, HOUR) | st.integers(1, longest))
    cap = draw(st.integers(base, longest))
    factor, jitter = draw(st.floats(1, 10) | st.floats(1, 1e9)), draw(st.floats(0, 1))
    return Exponential(draw(LIMITS), base, factor, cap, jitter)


COUNTING = (
    st.just(Never())
    | st.builds(Fixed, DELAYS, LIMITS)
    | linears()
    | exponentials()
    | st.builds(Listed, st.lists(DELAYS, min_size=1).map(tuple))
)
WORDED = COUNTING | st.builds(Custom, NAMES)
POLICIES = st.recursive(
    WORDED,
    lambda inner: st.builds(
        ByError, st.lists(st.tuples(NAMES, inner), min_size=1, max_size=3).map(tuple), inner
    ),
    max_leaves=5,
)
