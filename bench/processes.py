"""Many processes on one file: what they get done, how evenly, and how long one has to wait."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.loop import FileLoop
from bench.ours import StoreLoop
from bench.plan import Plan, Setup
from bench.raw import RawLoop
from bench.result import Cell, Column, Result, Table
from bench.stopwatch import clear_log, race
from stoker.store.sqlite.driver import Sync

_LOOPS: dict[str, type[RawLoop | StoreLoop]] = {"raw": RawLoop, "store": StoreLoop}
_BATCHES = (1, 100)
_PATIENCE = 60.0
_PROCESSES = multiprocessing.get_context("spawn")


class Share(NamedTuple):
    """What one process got done."""

    jobs: int
    seconds: float
    longest_wait: float


class Crowd(NamedTuple):
    """What all processes got done together."""

    rate: float
    fairness: float
    longest_wait: float


Spot = tuple[int, str, int]
"""(batch, loop, processes)."""


def run(setup: Setup) -> Result:
    """Let crowds of every size work on the same file."""
    with ExitStack() as stack:
        turns: dict[Spot, Callable[[], Crowd]] = {}
        for name, make in _LOOPS.items():
            loop = make(setup.folder / f"processes {name}.db", Sync.FULL)
            stack.callback(loop.close)
            turns |= {
                (batch, name, count): partial(_turn, loop, batch, count, setup.plan)
                for batch in _BATCHES
                for count in setup.plan.crowds
            }
        ordered = dict(sorted(turns.items(), key=lambda turn: (turn[0][0], turn[0][2])))
        found = race(ordered, setup.plan.rounds, setup.along, "processes: claim and finish")
    return Result((_table(found),))


def _turn(loop: RawLoop | StoreLoop, batch: int, count: int, plan: Plan) -> Crowd:
    wanted = plan.stock if batch > 1 else plan.stock // 10
    loop.fill(max(wanted - loop.unfinished(), 0))
    clear_log(loop.path)
    shares = _crowd(type(loop), loop.path, batch, count, plan.seconds)
    assert loop.unfinished(), f"{loop.path.name} ran out of jobs, so its rate means nothing"
    jobs = [share.jobs for share in shares]
    return Crowd(
        rate=sum(share.jobs / share.seconds for share in shares),
        fairness=min(jobs) / max(*jobs, 1),
        longest_wait=max(share.longest_wait for share in shares),
    )


def _crowd(
    make: type[RawLoop | StoreLoop], path: Path, batch: int, count: int, seconds: float
) -> list[Share]:
    start = _PROCESSES.Barrier(count)
    shares = []
    with ExitStack() as stack:
        ears = []
        for _ in range(count):
            ear, mouth = _PROCESSES.Pipe(duplex=False)
            arguments = (make, path, batch, seconds, start, mouth)
            process = _PROCESSES.Process(target=_work, args=arguments)
            process.start()
            stack.callback(process.join)
            mouth.close()
            ears.append(ear)
        for ear in ears:
            shares.append(Share(*ear.recv()))
            ear.close()
    return shares


def _work(
    make: type[RawLoop | StoreLoop],
    path: Path,
    batch: int,
    seconds: float,
    start: Barrier,
    mouth: Connection,
) -> None:
    """The life of one process: begin with the others, and stop when the time is up."""
    loop = make(path, Sync.FULL)
    start.wait(_PATIENCE)
    mouth.send(tuple(_share(loop, batch, seconds)))
    loop.close()


def _share(loop: FileLoop, batch: int, seconds: float) -> Share:
    begin = last = time.perf_counter()
    jobs, longest = 0, 0.0
    while last - begin < seconds:
        held = loop.claim(batch)
        between = time.perf_counter()
        loop.finish(held)
        now = time.perf_counter()
        longest = max(longest, between - last, now - between)
        jobs, last = jobs + len(held), now
    return Share(jobs, last - begin, longest)


def _table(found: dict[Spot, list[Crowd]]) -> Table:
    columns = (
        Column("batch"),
        Column("loop"),
        Column("processes"),
        Column("jobs/s, median", ",.0f"),
        Column("jobs/s, best", ",.0f"),
        Column("fairness, min ÷ max", ".2f"),
        Column("longest wait, ms", ",.1f"),
    )
    return Table(
        "Many processes on one file",
        columns,
        tuple(_row(spot, crowds) for spot, crowds in found.items()),
        "Two commits a batch, sync FULL. Fairness: jobs of the idlest process ÷ those of the "
        "busiest, median of the rounds. Wait: the longest call of all rounds.",
    )


def _row(spot: Spot, crowds: list[Crowd]) -> tuple[Cell, ...]:
    rates = [crowd.rate for crowd in crowds]
    fairness = median(crowd.fairness for crowd in crowds)
    longest = 1e3 * max(crowd.longest_wait for crowd in crowds)
    return (*spot, median(rates), max(rates), fairness, longest)
