"""For your own tests: your app in memory, its clock in your hand, its jobs run when you say so.

    with harness(app) as stoker:
        sign_up("ann")                          # your code, which enqueues
        stoker.assert_enqueued(welcome, args=("ann",))
        stoker.drain()                          # everything due runs, here in this thread
        stoker.clock.advance("1d")
        stoker.drain()                          # and what has fallen due since

What runs is the real thing: only the store, the clock and the dice are others.

clock      time that passes only when it is told to
stage      where the jobs run
witness    what there is to see, and to assert
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from stoker.client import Stoker
from stoker.desk import Desk
from stoker.store.memory import MemoryStore
from stoker.testing.clock import VirtualClock
from stoker.testing.stage import Stage
from stoker.testing.witness import Witness

__all__ = ["Harness", "VirtualClock", "harness"]


class Harness(Stage, Witness):
    """An app under test: its jobs run when you say so, and can be looked at. `harness` makes it.

    >>> app = Stoker("memory:")
    >>> @app.task(name="count")
    ... def count(number: int) -> None:
    ...     if number:
    ...         count.options(delay="1m").enqueue(number - 1)
    >>> with harness(app) as stoker:
    ...     job = count.enqueue(3)
    ...     stoker.run_for("10m")
    ...     stoker.assert_nothing_left()
    ...     [job.state.name for job in stoker.jobs(name=count)]
    4
    ['FINISHED', 'FINISHED', 'FINISHED', 'FINISHED']
    """


@contextmanager
def harness(app: Stoker, *, start: datetime | None = None) -> Iterator[Harness]:
    """Let an app work in memory, by a clock of its own, until the end of the `with` block.

    The clock starts at `start`, or now. The dice always fall on 0, so that retries wait for
    exactly as long as their policy says at most.

    >>> app = Stoker("sqlite:///jobs.db")
    >>> @app.task(name="double")
    ... def double(number: int) -> int:
    ...     return 2 * number
    >>> with harness(app) as stoker:
    ...     job = double.options(delay="10m").enqueue(21)
    ...     stoker.drain()
    ...     stoker.clock.advance("10m")
    ...     stoker.drain()
    ...     stoker.assert_finished(job)
    0
    1
    42
    """
    clock = VirtualClock(start)
    before = app.sit_at(Desk(MemoryStore(clock), dice=lambda: 0.0))
    stoker = Harness(app, clock)
    try:
        yield stoker
    finally:
        stoker.close()
        app.sit_at(before)
