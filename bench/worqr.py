"""Worqr: full cycles a second of one peer, by how many it has under way; beside the original.

A cycle is enqueue, start_task, finish_task, each awaited before the next. The original knows Redis
only, and is driven in the same way by a process of its own.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median

from bench.engines.engine import Engine, Place
from bench.peers.cast import Contestant, Peer
from bench.peers.drivers.tally import URL
from bench.peers.fetch import fetch
from bench.plan import Setup
from bench.result import Cell, Column, Result, Table, Target
from bench.stopwatch import lower_ratio, race, ratio
from stoker.worqr import Worqr

UNDER_WAY = (1, 10, 200)
WANTED = 5.0
"""Times the cycles of the original."""
ORIGINAL = Peer(
    name="the original",
    pins=("worqr@1.2.3", "redis@2.8.0"),
    driver="worqr.mjs",
    delivery="at least once",
    worker="a loop over enqueue, dequeue and finishProcess",
)
_PATIENCE = 60.0

Rates = Mapping[tuple[str, int], list[float]]
"""Cycles a second by whose they are, and how many are under way."""


class Broken(Exception):
    """The original does not do what it is told."""


def run(engine: Engine, setup: Setup) -> Result:
    """Let few and many cycles go on at the same time."""
    original, absence = _original(engine, setup)
    with engine.place(setup.folder) as place, engine.place(setup.folder) as other:
        ours = {("Stoker", many): partial(_ours, place, many, setup) for many in UNDER_WAY}
        theirs = _turns(original, other, setup)
        try:
            rates = _race({**ours, **theirs}, setup)
        except Broken as error:
            absence, rates = f"out: {error}", _race(ours, setup)
    return Result((_table(engine, rates, absence),), tuple(_targets(rates)))


def _original(engine: Engine, setup: Setup) -> tuple[Contestant | None, str]:
    """The original as installed, or why it is not there."""
    if engine.name != "redis":
        return None, ""
    reason = "not asked for" if setup.shelf is None else fetch(ORIGINAL, setup.shelf)
    if setup.shelf is None or reason is not None:
        return None, f"absent: {reason}"
    return ORIGINAL.contestant(setup.shelf), ""


Turns = Mapping[tuple[str, int], Callable[[], float]]


def _race(turns: Turns, setup: Setup) -> Rates:
    return race(turns, setup.plan.rounds, setup.along, "worqr: full cycles")


# -- ours ----------------------------------------------------------------------------------


def _ours(place: Place, many: int, setup: Setup) -> float:
    return asyncio.run(_go_round(place.url, many, setup.plan.seconds))


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


# -- the original --------------------------------------------------------------------------


def _turns(original: Contestant | None, place: Place, setup: Setup) -> Turns:
    if original is None:
        return {}
    turn = partial(_theirs, original, place, setup.plan.seconds)
    return {(ORIGINAL.name, many): partial(turn, many) for many in UNDER_WAY}


def _theirs(original: Contestant, place: Place, seconds: float, many: int) -> float:
    try:
        told = subprocess.run(  # noqa: S603 - our own words only
            [*original.command, str(many), str(seconds)],
            env={**original.environment, URL: place.url},
            check=True,
            capture_output=True,
            text=True,
            timeout=_PATIENCE + seconds,
        )
    except subprocess.CalledProcessError as error:
        raise Broken((error.stderr.strip().splitlines() or ["no word"])[-1][:200]) from None
    except subprocess.TimeoutExpired:
        raise Broken("it does not come to an end") from None
    return float(told.stdout.split()[-1])


# -- the table -----------------------------------------------------------------------------


def _table(engine: Engine, rates: Rates, absence: str) -> Table:
    columns = [
        Column("under way"),
        Column("cycles/s, median", ",.0f"),
        Column("cycles/s, best", ",.0f"),
    ]
    if _met(rates):
        columns += [Column("the original, median", ",.0f"), Column("Stoker ÷ it", ".2f")]
    note = "One peer, which also hears all its events."
    if _met(rates):
        note += f" The original: {ORIGINAL.packages}, a process of its own, driven in the same way."
    elif absence:
        note += f" The original, {ORIGINAL.packages}, is {absence}."
    rows = tuple(_row(rates, many) for many in UNDER_WAY)
    return Table(f"Worqr on {engine.title}: enqueue, start, finish", tuple(columns), rows, note)


def _met(rates: Rates) -> bool:
    return (ORIGINAL.name, UNDER_WAY[0]) in rates


def _row(rates: Rates, many: int) -> tuple[Cell, ...]:
    ours = rates["Stoker", many]
    row: tuple[Cell, ...] = (many, median(ours), max(ours))
    if not _met(rates):
        return row
    theirs = rates[ORIGINAL.name, many]
    return (*row, median(theirs), ratio(ours, theirs))


def _targets(rates: Rates) -> list[Target]:
    if not _met(rates):
        return []
    return [
        Target(
            f"Worqr cycles, {many} under way, Stoker ÷ the original",
            WANTED,
            lower_ratio(rates["Stoker", many], rates[ORIGINAL.name, many]),
            "{:.2f}",
        )
        for many in UNDER_WAY
    ]
