"""Wake-ups between processes: how long until the other one hears, and what waiting costs."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from bench.ours import QUEUE, fill
from bench.plan import Setup
from bench.raw import PAYLOAD
from bench.result import Cell, Column, Result, Table
from bench.stopwatch import percentile
from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.driver import Sync

_PROCESSES = multiprocessing.get_context("spawn")
_PATIENCE = 60.0
_BREATH = 0.002


class Ring(NamedTuple):
    """Microseconds from the beginning of an enqueue until ..."""

    returned: float
    heard: float


def run(setup: Setup) -> Result:
    """Enqueue here, listen there; then wait for nothing and count what it cost."""
    path = setup.folder / "wakeups.db"
    with closing(SqliteStore(path, sync=Sync.FULL)) as store:
        # Commits are dear until the log has its full length; a queue in use has left that behind.
        fill(store, setup.plan.stock)
        rings = _rings(Desk(store), path, setup)
        with _elsewhere(_idle, path, setup.plan.idle) as pipe:
            (cost,) = [pipe.recv() for _ in setup.along(range(1), "wakeups: waiting idly")]
    return Result((_latency(rings), _idleness(setup.plan.idle, cost)))


def _rings(desk: Desk, path: Path, setup: Setup) -> list[Ring]:
    turns = setup.along(range(setup.plan.rings), "wakeups: ringing")
    with _elsewhere(_listen, path) as pipe:
        rings = [_ring(desk, pipe) for _ in turns]
        pipe.send(False)
    return rings


def _ring(desk: Desk, pipe: Connection) -> Ring:
    pipe.send(True)
    # The listener has to fall asleep first: waking it up is what is measured.
    time.sleep(_BREATH)
    start = time.monotonic_ns()
    desk.intake.enqueue(Job(QUEUE, "bench", PAYLOAD))
    returned = time.monotonic_ns()
    heard = int(pipe.recv())
    return Ring((returned - start) / 1e3, (heard - start) / 1e3)


@contextmanager
def _elsewhere(work: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """A pipe to a process of its own that has begun its work."""
    here, there = _PROCESSES.Pipe()
    process = _PROCESSES.Process(target=work, args=(there, *arguments))
    process.start()
    there.close()
    try:
        here.recv()
        yield here
    finally:
        here.close()
        process.join()


def _listen(pipe: Connection, path: Path) -> None:
    """The other process: tells when it heard of each job."""
    with closing(SqliteStore(path)) as store, closing(store.bell.listen()) as listener:
        pipe.send("listening")
        while pipe.recv():
            listener.wait(_PATIENCE)
            pipe.send(time.monotonic_ns())


def _idle(pipe: Connection, path: Path, seconds: float) -> None:
    """The other process: waits for a bell that does not ring."""
    with closing(SqliteStore(path)) as store, closing(store.bell.listen()) as listener:
        pipe.send("listening")
        before = time.process_time()
        listener.wait(seconds)
        pipe.send(time.process_time() - before)


def _latency(rings: list[Ring]) -> Table:
    columns = (
        Column("from the call of enqueue until"),
        Column("p50, µs", ",.0f"),
        Column("p99, µs", ",.0f"),
    )
    rows = (
        _percentiles("it has returned", [ring.returned for ring in rings]),
        _percentiles("another process has heard of it", [ring.heard for ring in rings]),
    )
    return Table(f"Wake-up between processes, {len(rings)} times, sync FULL", columns, rows)


def _percentiles(what: str, times: list[float]) -> tuple[Cell, ...]:
    return (what, percentile(times, 50), percentile(times, 99))


def _idleness(seconds: float, cost: float) -> Table:
    columns = (Column("seconds waited", ",g"), Column("CPU time used, ms", ",.2f"))
    return Table("An idle listener", columns, ((seconds, cost * 1e3),))
