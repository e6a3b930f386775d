"""Draining a short and a long queue: what waits behind must not slow down what is at the front."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from statistics import median

from bench.engines.engine import Engine
from bench.peers.cast import ours
from bench.peers.drain import drain
from bench.peers.stage import Company, Stage, enqueuer, staged
from bench.plan import PeersPlan, Setup, fill_up
from bench.result import Column, Table
from bench.stopwatch import race

Backlogs = dict[int, list[float]]
"""Jobs a second by the length of the queue."""


def measure(setup: Setup, engine: Engine) -> Backlogs:
    """Drain the same number of jobs from both queues by turns."""
    plan = setup.plan.peers
    with ExitStack() as stack:
        turns: dict[int, Callable[[], float]] = {}
        for length in plan.backlogs:
            stage = stack.enter_context(staged(ours("async"), engine, setup.folder))
            till = stack.enter_context(enqueuer(stage))
            what = f"peers: filling {length:,} jobs"
            fill_up(partial(_fill, till), length, setup.along, what)
            turns[length] = partial(_turn, stage, till, plan)
        return race(turns, plan.rounds, setup.along, "peers: short queue, long queue")


def _fill(till: Company, count: int) -> None:
    till.enqueue("many", count)


def _turn(stage: Stage, till: Company, plan: PeersPlan) -> float:
    drained = drain(stage, 1, plan.backlogs[0], plan.seconds)
    _fill(till, drained.jobs)
    return drained.rate


def table(backlogs: Backlogs) -> Table:
    """The short queue and the long one."""
    columns = (
        Column("jobs in the queue"),
        Column("jobs/s, median", ",.0f"),
        Column("jobs/s, best", ",.0f"),
    )
    rows = tuple((length, median(rates), max(rates)) for length, rates in backlogs.items())
    note = f"Stoker, async, one process: {min(backlogs):,} jobs drained from each."
    return Table("Short queue, long queue", columns, rows, note)
