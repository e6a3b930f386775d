"""Draining a short and a long queue: what waits behind must not slow down what is at the front.

Where an engine has something to clear away behind jobs, the long queue is drained again after as
many jobs more have come and gone, and while somebody keeps all of that from being cleared away.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from statistics import median

from bench.engines.engine import Engine
from bench.line import Line, in_turns, opened
from bench.ours import AT_ONCE_FORGOTTEN
from bench.plan import Setup, fill_up, portions
from bench.result import Cell, Column, Result, Table, Target
from bench.stopwatch import lower_ratio, ratio

WANTED = 0.85
"""Of the speed with a short queue."""
_CYCLES = 4
_PINNED_SHARE = 10
"""One in so many of the long queue comes and goes before drains beside an old snapshot."""

Rates = dict[int, list[float]]
"""Jobs a second by the length of the queue."""


def run(engine: Engine, setup: Setup) -> Result:
    """Drain the same number of jobs from both queues by turns."""
    with ExitStack() as stack:
        lines = {}
        for length in setup.plan.backlogs:
            line = lines[length] = stack.enter_context(opened(engine, setup.folder))
            fill_up(line.fill, length, setup.along, f"backlog: filling {length:,} jobs")
        found = dict(_conditions(engine, setup, lines))
    return Result((_table(engine, setup, found),), tuple(_targets(setup, found)))


def _conditions(
    engine: Engine, setup: Setup, lines: dict[int, Line]
) -> Iterator[tuple[str, Rates]]:
    """What was reached with both queues, by what has happened to the long one."""
    length = max(lines)
    long = lines[length]
    yield "", _race(setup, lines)
    pinned = engine.old_snapshot(long.stage.place)
    if pinned is None:
        return
    for line in lines.values():
        line.configure(AT_ONCE_FORGOTTEN)
    _flow(long, length, length, setup, "backlog: as many come and go")
    yield ", as many come and gone", _race(setup, lines)
    with pinned:
        few = length // _PINNED_SHARE
        _flow(long, length, few, setup, "backlog: jobs come and go beside an old snapshot")
        yield ", beside an old snapshot", _race(setup, lines)


def _race(setup: Setup, lines: dict[int, Line]) -> Rates:
    turns = {
        length: partial(_come_and_go, line, length, min(lines)) for length, line in lines.items()
    }
    return in_turns(turns, setup, "backlog: short queue, long queue")


def _come_and_go(line: Line, length: int, count: int) -> float:
    """Drain some jobs, and have as many come after them."""
    rate = line.drain(count)
    line.fill_up(length)
    return rate


def _flow(line: Line, length: int, count: int, setup: Setup, what: str) -> None:
    for portion in setup.along(portions(count, length // _CYCLES), what):
        _come_and_go(line, length, portion)


def _table(engine: Engine, setup: Setup, found: dict[str, Rates]) -> Table:
    columns = (
        Column("jobs in the queue"),
        Column("jobs/s, median", ",.0f"),
        Column("jobs/s, best", ",.0f"),
        Column("of the short one", ".0%"),
    )
    rows = tuple(_row(what, rates, length) for what, rates in found.items() for length in rates)
    note = f"Stoker, async, one process: {min(setup.plan.backlogs):,} jobs drained from each."
    if len(found) > 1:
        note += _ABOUT_CHURN.format(max(setup.plan.backlogs) // _PINNED_SHARE)
    return Table(f"Short queue, long queue on {engine.title}", columns, rows, note)


_ABOUT_CHURN = (
    " Come and gone: as many jobs as the long queue holds were enqueued and as many drained, with "
    "autovacuum as it comes; from then on nothing is kept of finished jobs, in both queues. Old "
    "snapshot: a transaction idles that began before {:,} more came and went, so that none of them "
    "could be cleared away. Each time both queues take turns anew."
)


def _row(what: str, rates: Rates, length: int) -> tuple[Cell, ...]:
    own, short = rates[length], rates[min(rates)]
    share = None if own is short else ratio(own, short)
    return (f"{length:,}{what if share else ''}", median(own), max(own), share)


def _targets(setup: Setup, found: dict[str, Rates]) -> Iterator[Target]:
    short, long = setup.plan.backlogs
    for what, rates in found.items():
        share = lower_ratio(rates[long], rates[short])
        yield Target(f"drain, {long:,} jobs queued{what} ÷ {short:,}", WANTED, share)
