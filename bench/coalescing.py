"""Many threads enqueue one job at a time: how many share a commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.ours import QUEUE, fill
from bench.plan import Setup
from bench.raw import PAYLOAD, RawLoop
from bench.result import Cell, Column, Result, Table
from bench.stopwatch import clear_log, race, seconds
from stoker.desk import Desk
from stoker.kernel.change import Change
from stoker.kernel.job import Job
from stoker.store import Answer, Claim
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.driver import Sync


class CountingStore(SqliteStore):
    """Counts its commits."""

    commits = 0

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        """As ever, and one more."""
        self.commits += 1
        return super().transact(changes, claims)


class Rush(NamedTuple):
    """What came of one turn."""

    rate: float
    commits: int


Spot = tuple[str, int]
"""(who, threads)."""


def run(setup: Setup) -> Result:
    """Race crowds of threads, each at a desk of all, and a raw loop without company."""
    plan = setup.plan
    with ExitStack() as stack:
        raw = RawLoop(setup.folder / "coalescing raw.db", Sync.FULL)
        stack.callback(raw.close)
        store = CountingStore(setup.folder / "coalescing desk.db", sync=Sync.FULL)
        stack.callback(store.close)
        # Commits are dear until the log has its full length; a queue in use has left that behind.
        raw.fill(plan.stock)
        fill(store, plan.stock)
        turns: dict[Spot, Callable[[], Rush]] = {("raw", 1): partial(_alone, raw, plan.enqueues)}
        for count in plan.threads:
            turns["desk", count] = partial(_rush, store, Desk(store), count, plan.enqueues)
        found = race(turns, plan.rounds, setup.along, "coalescing: single jobs from many threads")
    return Result((_table(found, plan.enqueues),))


def _alone(raw: RawLoop, count: int) -> Rush:
    clear_log(raw.path)
    return Rush(count / seconds(lambda: _one_by_one(raw, count)), count)


def _one_by_one(raw: RawLoop, count: int) -> None:
    for _ in range(count):
        raw.fill(1)


def _rush(store: CountingStore, desk: Desk, threads: int, count: int) -> Rush:
    clear_log(Path(store.path))
    before, each = store.commits, count // threads
    spent = seconds(lambda: _enqueue_from(threads, lambda: _enqueue(desk, each)))
    return Rush(each * threads / spent, store.commits - before)


def _enqueue(desk: Desk, count: int) -> None:
    for _ in range(count):
        desk.intake.enqueue(Job(QUEUE, "bench", PAYLOAD))


def _enqueue_from(count: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _table(found: dict[Spot, list[Rush]], count: int) -> Table:
    columns = (
        Column("loop"),
        Column("threads"),
        Column("jobs/s, median", ",.0f"),
        Column("jobs/s, best", ",.0f"),
        Column("commits, median", ",.0f"),
        Column("jobs a commit", ",.1f"),
    )
    return Table(
        "Single enqueues from many threads",
        columns,
        tuple(_row(spot, rushes, count) for spot, rushes in found.items()),
        f"{count:,} jobs a turn, one call each, sync FULL. Callers that come while a commit is "
        "on its way share the next one.",
    )


def _row(spot: Spot, rushes: list[Rush], count: int) -> tuple[Cell, ...]:
    rates = [rush.rate for rush in rushes]
    commits = median(rush.commits for rush in rushes)
    shared = count // spot[1] * spot[1] / commits
    return (*spot, median(rates), max(rates), commits, shared)
