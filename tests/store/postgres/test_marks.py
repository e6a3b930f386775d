"""Marks: when a claim goes by them, and when it looks at the whole."""

from __future__ import annotations

import time

import pytest

from stoker.kernel.job import Job
from stoker.kernel.queue import Order
from stoker.store.postgres.marks import Marks
from tests.engines import VirtualClock

QUEUES = ["q"]


@pytest.fixture
def watch(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    monkeypatch.setattr(time, "monotonic", lambda: clock() / 1e6)
    return clock


def looked(watch: VirtualClock, seconds: float, *, scarce: bool) -> Marks:
    """Marks after a look at the whole that took so long."""
    marks = Marks()
    began = time.monotonic()
    watch.pass_(seconds)
    marks.note(began, whole=True, scarce=scarce)
    marks.move([Job("q", id=7, due_at=5)], Order.RANK_TIME, 10**12, whole=True)
    return marks


def goes_by_marks(marks: Marks) -> bool:
    return marks.for_claim(QUEUES) != []


@pytest.mark.parametrize(
    ("cost", "scarce", "wait"),
    [
        pytest.param(0.001, False, 1.0, id="about every second"),
        pytest.param(0.2, True, 4.0, id="more seldom where that is dear"),
        pytest.param(60.0, False, 10.0, id="but not much more, for it may only have had to wait"),
    ],
)
def test_a_claim_looks_at_the_whole(
    watch: VirtualClock, cost: float, scarce: bool, wait: float
) -> None:
    marks = looked(watch, cost, scarce=scarce)
    watch.pass_(wait - 0.01)
    assert goes_by_marks(marks)
    watch.pass_(0.02)
    assert not goes_by_marks(marks)


def test_where_little_is_left_it_is_looked_at_the_whole_each_time(watch: VirtualClock) -> None:
    assert not goes_by_marks(looked(watch, 0.001, scarce=True))
