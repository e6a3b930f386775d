"""Bulk insert, a thousand jobs a commit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.loop import FileLoop
from bench.ours import DeskLoop, StoreLoop
from bench.plan import Setup
from bench.rates import rate_table, reached
from bench.raw import RawLoop
from bench.result import Result, Target
from bench.stopwatch import clear_log, race, seconds
from stoker.store.sqlite.driver import Sync

WANTED = 0.5
_LOOPS: dict[str, Callable[[Path, Sync], FileLoop]] = {
    "raw": RawLoop,
    "store": StoreLoop,
    "desk": DeskLoop,
}


def run(setup: Setup) -> Result:
    """Race the loops at taking jobs in; making the jobs is part of the work."""
    with ExitStack() as stack:
        turns = {}
        for sync in Sync:
            for name, make in _LOOPS.items():
                loop = make(setup.folder / f"inserts {sync.value} {name}.db", sync)
                stack.callback(loop.close)
                turns[sync, name] = partial(_turn, loop, setup.plan.jobs)
        rates = race(turns, setup.plan.rounds, setup.along, "inserts: a thousand a commit")
    share = reached(rates, Sync.FULL, "store", "raw")
    target = Target("bulk insert, 1,000 a commit, FULL: store ÷ raw", WANTED, share)
    against = dict.fromkeys(_LOOPS, "raw")
    return Result((rate_table("Bulk insert, 1,000 jobs a commit", rates, against),), (target,))


def _turn(loop: FileLoop, count: int) -> float:
    clear_log(loop.path)
    return count / seconds(lambda: loop.fill(count))
