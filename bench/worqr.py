"""Worqr: full cycles a second of one peer, by how many it has under way.

A cycle is enqueue, start_task, finish_task, each awaited before the next.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from statistics import median

from bench.engines.engine import Engine
from bench.plan import Setup
from bench.result import Column, Result, Table
from bench.stopwatch import race
from stoker.worqr import Worqr

UNDER_WAY = (1, 10, 200)


def run(engine: Engine, setup: Setup) -> Result:
    """Let few and many cycles go on at the same time."""
    with engine.place(setup.folder) as place:
        turns = {many: partial(_cycles, place.url, many, setup.plan.seconds) for many in UNDER_WAY}
        rates = race(turns, setup.plan.rounds, setup.along, "worqr: full cycles")
    columns = (
        Column("under way"),
        Column("cycles/s, median", ",.0f"),
        Column("cycles/s, best", ",.0f"),
    )
    rows = tuple((many, median(found), max(found)) for many, found in rates.items())
    title = f"Worqr on {engine.title}: enqueue, start, finish"
    return Result((Table(title, columns, rows, "One peer, which also hears all its events."),))


def _cycles(url: str, many: int, seconds: float) -> float:
    return asyncio.run(_go_round(url, many, seconds))


async def _go_round(url: str, many: int, seconds: float) -> float:
    async with Worqr(url, worker_timeout=-1) as peer:
        await peer.start_worker()
        await peer.start_work("q")
        start = time.perf_counter()
        done = await asyncio.gather(*(_repeat(peer, start + seconds) for _ in range(many)))
        return sum(done) / (time.perf_counter() - start)


async def _repeat(peer: Worqr, until: float) -> int:
    done = 0
    while time.perf_counter() < until:
        await peer.enqueue("q", f"task {done}")
        while (process := await peer.start_task("q")) is None:
            pass
        await peer.finish_task(process.id)
        done += 1
    return done
