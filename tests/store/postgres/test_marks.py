"""Marks: when a claim goes by them, and when it looks at the whole."""

from __future__ import annotations

import time

import pytest

from stoker.kernel.job import Job
from stoker.kernel.queue import Order
from stoker.store.postgres.marks import Marks

QUEUES = ["q"]


class Watch:
    """A clock that only goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(time, "monotonic", watch)
    return watch


def looked(watch: Watch, seconds: float, *, scarce: bool = False) -> Marks:
    """Marks after a look at the whole that took so long."""
    marks = Marks()
    began = watch.now
    watch.now += seconds
    marks.note(began, whole=True, scarce=scarce)
    marks.move([Job("q", id=7, due_at=5)], Order.RANK_TIME, 10**12, whole=True)
    return marks


def goes_by_marks(marks: Marks) -> bool:
    return marks.for_claim(QUEUES) != []


def test_who_has_looked_goes_by_marks_for_a_second(watch: Watch) -> None:
    marks = looked(watch, 0.001)
    watch.now += 0.99
    assert goes_by_marks(marks)
    watch.now += 0.02
    assert not goes_by_marks(marks)


def test_where_little_is_left_it_is_looked_at_the_whole_each_time(watch: Watch) -> None:
    assert not goes_by_marks(looked(watch, 0.001, scarce=True))


def test_dear_looks_get_a_small_share_of_the_time(watch: Watch) -> None:
    marks = looked(watch, 0.2, scarce=True)
    watch.now += 3.9
    assert goes_by_marks(marks)
    watch.now += 0.2
    assert not goes_by_marks(marks)


def test_a_look_that_had_to_wait_is_not_the_last_for_long(watch: Watch) -> None:
    marks = looked(watch, 60.0)
    watch.now += 9.9
    assert goes_by_marks(marks)
    watch.now += 0.2
    assert not goes_by_marks(marks)
