"""One queue on a Cluster of three servers, beside the same on one."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from statistics import median

from bench.engines import cluster
from bench.engines.cluster import Partitioned
from bench.engines.engine import Engine, Places
from bench.line import in_turns, opened
from bench.plan import Setup
from bench.result import Cell, Column, Result, Table, Target
from bench.stopwatch import lower_ratio, ratio

WANTED = 1.0
SHARDS = 3
_PLAIN = "one server, 1 partition"
_ONE = f"one server, {SHARDS} partitions"
_MANY = f"{SHARDS} servers, {SHARDS} partitions"

Rates = dict[str, list[float]]
"""Jobs a second by where the queue is."""


def run(engine: Engine, setup: Setup) -> Result:
    """Drain the queue by one worker process, wherever it is."""
    count = setup.plan.peers.jobs
    with ExitStack() as stack:
        shards = stack.enter_context(cluster.started(setup.folder, SHARDS))
        places: dict[str, Places] = {
            _PLAIN: engine,
            _ONE: Partitioned(engine, SHARDS),
            _MANY: Partitioned(shards, SHARDS),
        }
        turns = {
            name: partial(stack.enter_context(opened(where, setup.folder)).turn, count)
            for name, where in places.items()
        }
        rates = in_turns(turns, setup, "cluster: drains")
    target = Target(f"drain, {_MANY} ÷ {_ONE}", WANTED, lower_ratio(rates[_MANY], rates[_ONE]))
    return Result((_table(rates, count),), (target,))


def _table(rates: Rates, count: int) -> Table:
    columns = (
        Column("where"),
        Column("jobs/s, median", ",.0f"),
        Column("jobs/s, best", ",.0f"),
        Column(f"÷ {_PLAIN}", ".2f"),
        Column(f"÷ {_ONE}", ".2f"),
    )
    note = (
        f"{count:,} jobs of one queue that do nothing, one worker process. All servers share the "
        f"{os.cpu_count()} cores of this machine with the worker, so this tells what spreading "
        "jobs costs, not what more machines would bring."
    )
    rows = tuple(_row(name, rates) for name in rates)
    return Table("Redis: a Cluster beside one server", columns, rows, note)


def _row(name: str, rates: Rates) -> tuple[Cell, ...]:
    own = rates[name]
    beside = (None if name == other else ratio(own, rates[other]) for other in (_PLAIN, _ONE))
    return (name, median(own), max(own), *beside)
