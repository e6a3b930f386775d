"""Sizes so small that every benchmark is over at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.plan import PeersPlan, Plan, PolicyPlan
from bench.result import Cell, Table

TINY = Plan(
    name="tiny",
    rounds=1,
    worker_rounds=1,
    jobs=200,
    depths=(200, 400),
    samples=2,
    crowds=(2,),
    seconds=0.01,
    stock=5_000,
    threads=(1, 2),
    enqueues=4,
    rings=3,
    idle=0.01,
    stored=500,
    churn=4_000,
    passing=100,
    backlogs=(100, 200),
    peers=PeersPlan(
        rounds=1,
        jobs=200,
        singles=4,
        seconds=60.0,
        latencies=2,
        idle=0.05,
    ),
    policy=PolicyPlan(jobs=200, keys=(20, 40), blocked=50),
)


def unreal_figures(tables: Sequence[Table]) -> list[Cell]:
    """Figures that cannot have been measured; each table must have some that can."""
    unreal: list[Cell] = []
    for table in tables:
        figures = [cell for row in table.rows for cell in row if isinstance(cell, float)]
        assert figures, table.title
        unreal += [cell for cell in figures if not (math.isfinite(cell) and cell >= 0)]
    return unreal
