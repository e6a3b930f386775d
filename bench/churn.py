"""Jobs that come and go behind a server: its tables must not grow, nor claims slow down.

With `--full` as many pass as in an hour of a thousand jobs a second, as fast as they can: the
server has less time to clear away behind them than it would have in that hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from bench.engines.engine import Engine
from bench.line import Line, opened
from bench.ours import AT_ONCE_FORGOTTEN
from bench.plan import Setup, fill_up, portions
from bench.result import Cell, Column, Result, Table, Target

MOST_GROWTH = 1.1
"""Of what the first half of the passage took at most."""
_LOOKS = 10
_MEGABYTE = 1e6


def run(engine: Engine, setup: Setup) -> Result:
    """Let jobs pass through a queue, and look at it now and then."""
    stock, passing = setup.plan.stored, portions(setup.plan.passing, setup.plan.passing // _LOOKS)
    with opened(engine, setup.folder) as line:
        line.configure(AT_ONCE_FORGOTTEN)
        fill_up(line.fill, stock, setup.along, f"churn: filling {stock:,} jobs")
        looks = [
            _look(line, stock, portion)
            for portion in setup.along(passing, "churn: jobs come and go")
        ]
    weights = [weight for _, weight in looks]
    half = len(weights) // 2
    growth = max(weights[half:]) / max(weights[:half])
    what = f"{engine.weighs}, second half of {setup.plan.passing:,} jobs ÷ first half"
    target = Target(what, MOST_GROWTH, growth, form="{:.2f}", below=True)
    return Result((_table(engine, stock, passing, looks),), (target,))


def _look(line: Line, stock: int, count: int) -> tuple[float, int]:
    line.fill(count)
    rate = line.drain(count)
    line.fill_up(stock)
    return rate, line.stage.place.weight()


def _table(
    engine: Engine, stock: int, passing: Sequence[int], looks: Sequence[tuple[float, int]]
) -> Table:
    columns = (
        Column("jobs passed"),
        Column("drained, jobs/s", ",.0f"),
        Column("MB", ",.0f"),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (passed, rate, weight / _MEGABYTE)
        for passed, (rate, weight) in zip(accumulate(passing), looks, strict=True)
    )
    note = f"{stock:,} jobs stay queued; nothing is kept of finished ones. MB: {engine.weighs}."
    return Table(f"{engine.title} while jobs pass", columns, rows, note)
