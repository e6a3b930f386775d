"""Claim and finish, a batch at a time: how much of the raw loop's speed is left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.loop import BATCH, FileLoop, apart, together
from bench.ours import DeskLoop, StoreLoop
from bench.plan import Setup
from bench.rates import Rates, rate_table, reached
from bench.raw import Ending, RawLoop
from bench.result import Result, Target
from bench.stopwatch import clear_log, race, seconds
from stoker.store.sqlite.driver import Sync

WANTED = 0.5
_NOTE = (
    "Two commits: claim, then finish. One commit: finish goes out with the next claim. "
    "Deletes: nothing is kept of a finished job; elsewhere it stays. "
    "Results: as one commit, and each job ends with a result of its own."
)


class Contestant(NamedTuple):
    """A loop, the way it is used, and the raw one it is compared with."""

    name: str
    open: Callable[[Path, Sync, Ending], FileLoop]
    drain: Callable[[FileLoop, int], None]
    against: str
    ending: Ending = Ending.KEPT


CONTESTANTS = (
    Contestant("raw, two commits", RawLoop, apart, "raw, two commits"),
    Contestant("store, two commits", StoreLoop, apart, "raw, two commits"),
    Contestant("raw, deletes", RawLoop, apart, "raw, deletes", Ending.DELETED),
    Contestant("store, deletes", StoreLoop, apart, "raw, deletes", Ending.DELETED),
    Contestant("raw, one commit", RawLoop, together, "raw, one commit"),
    Contestant("store, one commit", StoreLoop, together, "raw, one commit"),
    Contestant("desk, one commit", DeskLoop, together, "raw, one commit"),
    Contestant("raw, results", RawLoop, together, "raw, results", Ending.ANSWERED),
    Contestant("store, results", StoreLoop, together, "raw, results", Ending.ANSWERED),
    Contestant("desk, results", DeskLoop, together, "raw, results", Ending.ANSWERED),
)


def run(setup: Setup) -> Result:
    """Race all contestants under both kinds of durability."""
    rates = _rates(setup)
    share = reached(rates, Sync.FULL, "store, two commits", "raw, two commits")
    target = Target("claim and finish, batch 100, FULL: store ÷ raw, two commits", WANTED, share)
    against = {contestant.name: contestant.against for contestant in CONTESTANTS}
    table = rate_table(f"Claim and finish, batches of {BATCH}", rates, against, _NOTE)
    return Result((table,), (target,))


def _rates(setup: Setup) -> Rates:
    with ExitStack() as stack:
        turns = {}
        for sync in Sync:
            for name, make, drain, _, ending in CONTESTANTS:
                loop = make(setup.folder / f"claims {sync.value} {name}.db", sync, ending)
                stack.callback(loop.close)
                turns[sync, name] = partial(_turn, loop, drain, setup.plan.jobs)
        return race(turns, setup.plan.rounds, setup.along, "claims: claim and finish")


def _turn(loop: FileLoop, drain: Callable[[FileLoop, int], None], count: int) -> float:
    loop.fill(count)
    clear_log(loop.path)
    spent = seconds(lambda: drain(loop, count))
    assert loop.unfinished() == 0, f"{loop.path.name} left work undone, so its time means nothing"
    return count / spent
