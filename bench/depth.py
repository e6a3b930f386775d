"""Claiming from queues of every depth: the cost must not grow with what waits behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from bench.loop import FileLoop
from bench.ours import StoreLoop
from bench.plan import Setup, fill_up
from bench.raw import RawLoop
from bench.result import Cell, Column, Result, Table
from bench.stopwatch import clear_log, race
from stoker.store.sqlite.driver import Sync

_LOOPS: dict[str, Callable[[Path, Sync], FileLoop]] = {"raw": RawLoop, "store": StoreLoop}
_BATCHES = (100, 1)

Spot = tuple[int, str, int]
"""(batch, loop, depth)."""


def run(setup: Setup) -> Result:
    """Claim by turns from all depths, so that none has better weather than another."""
    with ExitStack() as stack:
        turns: dict[Spot, Callable[[], float]] = {}
        for name, make in _LOOPS.items():
            for depth in setup.plan.depths:
                # Without a sync in each claim even a small growth would show.
                loop = make(setup.folder / f"depth {depth} {name}.db", Sync.NORMAL)
                stack.callback(loop.close)
                fill_up(loop.fill, depth, setup.along, f"depth: filling {depth:,} jobs, {name}")
                clear_log(loop.path)
                turns |= {(batch, name, depth): partial(_turn, loop, batch) for batch in _BATCHES}
        times = race(turns, setup.plan.samples, setup.along, "depth: claiming")
    return Result((_table(times, setup.plan.depths),))


def _turn(loop: FileLoop, batch: int) -> float:
    """Microseconds of one claim. The queue is as deep afterwards as before."""
    # The loop before was another one; what it pushed out of the processor's caches comes back.
    loop.finish(loop.claim(1))
    start = time.perf_counter_ns()
    held = loop.claim(batch)
    spent = (time.perf_counter_ns() - start) / 1e3
    assert len(held) == batch, f"{loop.path.name} ran out of jobs"
    loop.finish(held)
    loop.fill(batch + 1)
    return spent


def _table(times: dict[Spot, list[float]], depths: tuple[int, ...]) -> Table:
    columns = (
        Column("batch"),
        Column("loop"),
        *(Column(f"{depth:,} queued, µs", ",.0f") for depth in depths),
        *(Column(f"{depth:,} ÷ {depths[0]:,}", ".2f") for depth in depths[1:]),
    )
    rows = tuple(_row(batch, name, times, depths) for batch in _BATCHES for name in _LOOPS)
    return Table(
        "One claim, by depth of the queue",
        columns,
        rows,
        "Medians, commit included, sync NORMAL.",
    )


def _row(
    batch: int, name: str, times: dict[Spot, list[float]], depths: tuple[int, ...]
) -> tuple[Cell, ...]:
    medians = [median(times[batch, name, depth]) for depth in depths]
    return (batch, name, *medians, *(each / medians[0] for each in medians[1:]))
