"""`stoker bench`: what this store can do on this machine."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import quantiles
from typing import NamedTuple

import click

from stoker.desk import Desk
from stoker.doors.cli import bulk, show
from stoker.doors.cli.command import Command, FiniteRange, json_option, opened
from stoker.doors.cli.place import Place
from stoker.doors.cli.show import Column
from stoker.doors.cli.words import SECOND, span
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Finished
from stoker.kernel.queue import DEFAULTS, QueueSettings, Retention
from stoker.store import Filter

_BATCH = 500
_STEP = 100
_LONGEST_WAIT = 5.0


class Measure(NamedTuple):
    """What one measurement gave. Times are in microseconds, for one step."""

    name: str
    jobs: int
    per_second: float
    p50: float
    p99: float


class Bench:
    """Measurements in a scratch queue."""

    def __init__(self, desk: Desk, queue: str, seconds: float) -> None:
        self._desk = desk
        self._queue = queue
        self._seconds = seconds
        self.in_hand: list[Job] = []

    def measures(self) -> Iterator[Measure]:
        """One after the other; the later ones work on what the earlier ones have enqueued."""
        yield self._timed("enqueue, 1 a commit", lambda: self._enqueue(1))
        yield self._timed(f"enqueue, {_BATCH} a commit", lambda: self._enqueue(_BATCH))
        self._exchange(_STEP)
        yield self._timed(f"finish and claim, {_STEP} a step", lambda: self._exchange(_STEP))
        self.clear()
        yield self._trips()

    def _trips(self) -> Measure:
        ear = self._desk.store.bell.listen()
        try:
            return self._timed("enqueue, ring, claim", lambda: self._trip(ear.wait))
        finally:
            ear.close()

    def _trip(self, wait: Callable[[float], object]) -> int:
        self._enqueue(1)
        wait(_LONGEST_WAIT)
        self._exchange(1)
        return 1

    def _enqueue(self, count: int) -> int:
        self._desk.intake.enqueue_many([Job(self._queue, "bench")] * count)
        return count

    def _exchange(self, count: int) -> int:
        """Report what is in hand and claim the next; how many were reported."""
        done = [(job, Finished()) for job in self.in_hand]
        request = self._desk.dispatch.request([self._queue], count)
        _, grants = self._desk.report.many(done, [request])
        self.in_hand = self._desk.dispatch.granted(grants[0])
        return len(done)

    def _timed(self, name: str, step: Callable[[], int]) -> Measure:
        times, jobs = list[float](), 0
        begun = time.perf_counter()
        while (elapsed := time.perf_counter() - begun) < self._seconds or len(times) < 2:
            at = time.perf_counter()
            moved = step()
            if not moved:
                break
            jobs += moved
            times.append((time.perf_counter() - at) * SECOND)
        elapsed = time.perf_counter() - begun
        cuts = quantiles(times, n=100, method="inclusive")
        return Measure(name, jobs, jobs / elapsed, cuts[49], cuts[98])

    def clear(self) -> None:
        """Leave no job behind."""
        self._desk.report.many([(job, Finished()) for job in self.in_hand])
        self.in_hand = []
        left = Filter(states=(State.QUEUED,), queue=self._queue)
        bulk.everywhere(self._desk, bulk.DELETE, left, lambda _: None)


@click.command(
    cls=Command,
    examples=["stoker bench", "stoker bench --store sqlite:///scratch.db --seconds 3 --json"],
)
@click.option(
    "--seconds",
    metavar="SECONDS",
    type=FiniteRange(0, 60, min_open=True),
    default=1.0,
    show_default=True,
    help="How long each measurement takes.",
)
@json_option
@opened(make=True, private=True)
def bench(here: Place, *, seconds: float, as_json: bool) -> None:
    """Measure the store, in a queue of its own that is removed in the end.

    Durable means durable here too: each commit waits for the disk as the store's settings say.
    """
    with _scratch(here.desk) as queue:
        measuring = Bench(here.desk, queue, seconds)
        try:
            found = list(measuring.measures())
        finally:
            measuring.clear()
    if as_json:
        show.document({"store": here.shown, "measures": [_form(measure) for measure in found]})
        return
    columns = ("jobs", "jobs/s", "half within", "99% within")
    show.table(
        (Column("measure"), *(Column(title, right=True) for title in columns)),
        [(m.name, f"{m.jobs:,}", f"{m.per_second:,.0f}", span(m.p50), span(m.p99)) for m in found],
    )


@contextmanager
def _scratch(desk: Desk) -> Iterator[str]:
    """A queue that keeps nothing, for a while."""
    queue = f"stoker-bench-{os.getpid()}-{secrets.token_hex(4)}"
    desk.control.configure(queue, QueueSettings(retention=Retention(0, 0, 0)))
    try:
        yield queue
    finally:
        desk.control.configure(queue, DEFAULTS)
        desk.store.tidy()


def _form(measure: Measure) -> dict[str, object]:
    return {
        "name": measure.name,
        "jobs": measure.jobs,
        "jobs_per_second": round(measure.per_second, 1),
        "p50_seconds": measure.p50 / SECOND,
        "p99_seconds": measure.p99 / SECOND,
    }
