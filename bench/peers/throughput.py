"""How fast jobs go in and out, and what they take on the disk while they wait."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.claims import BATCH, apart
from bench.ours import unfinished
from bench.peers.cast import OURS, Contestant, Fleet
from bench.peers.drain import Drained, drain
from bench.peers.lineup import Lineup, whole
from bench.peers.stage import Stage, enqueuer
from bench.plan import PeersPlan, Setup
from bench.raw import RawLoop
from bench.result import Cell, Column, Table
from bench.stopwatch import clear_log, race, ratio, seconds
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.driver import Sync

RAW = "raw"
CROWDS = (1, 2)


class Turn(NamedTuple):
    """What one contestant reached in one round, in jobs a second. None: it has no such thing."""

    singly: float
    in_bulk: float | None
    drained: tuple[float, float | None]
    """By one process and by two."""
    weight: float
    """Bytes on the disk for a queued job."""


Turns = dict[str, list[Turn]]


def measure(setup: Setup, lineup: Lineup) -> Turns:
    """Race all contestants, each on a new file in every round."""
    plan = setup.plan.peers
    turns: dict[str, Callable[[], Turn | None]] = {RAW: partial(_raw_turn, setup.folder, plan)}
    for contestant in lineup.contestants:
        turn = partial(_turn, contestant, setup.folder, plan)
        turns[contestant.name] = partial(lineup.attempt, contestant, turn)
    what = "peers: enqueuing and draining"
    return whole(race(turns, plan.rounds, setup.along, what, warm_ups=0))


def _raw_turn(parent: Path, plan: PeersPlan) -> Turn:
    jobs = plan.jobs // BATCH * BATCH
    with (
        tempfile.TemporaryDirectory(dir=parent) as folder,
        closing(RawLoop(Path(folder) / "jobs.db", Sync.FULL)) as loop,
    ):
        _one_by_one(loop, plan.singles)
        singly = plan.singles / seconds(lambda: _one_by_one(loop, plan.singles))
        in_bulk = jobs / seconds(lambda: loop.fill(jobs))
        weight = _weight(loop.path, jobs + 2 * plan.singles)
        drained = jobs / seconds(lambda: apart(loop, jobs))
    return Turn(singly, in_bulk, (drained, None), weight)


def backlog(plan: PeersPlan) -> int:
    """How many jobs wait when a drain begins."""
    return plan.jobs + 2 * plan.singles


def _one_by_one(loop: RawLoop, count: int) -> None:
    for _ in range(count):
        loop.fill(1)


def _turn(contestant: Contestant, parent: Path, plan: PeersPlan) -> Turn:
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        stage = Stage(contestant, Path(folder), contestant.looks[-1])
        with enqueuer(stage) as till:
            # Commits are dear until the log has its full length; a queue in use is past that.
            till.order(f"single {plan.singles}")
            singly = plan.singles / till.order(f"single {plan.singles}").figures[0]
            in_bulk = plan.jobs / till.order(f"many {plan.jobs}").figures[0]
            weight = _weight(stage.file, backlog(plan))
            first = _drain(stage, CROWDS[0], backlog(plan), plan.seconds)
            second = None
            if contestant.fleet is not Fleet.ALONE:
                till.order(f"many {first.jobs}")
                second = _drain(stage, CROWDS[1], backlog(plan), plan.seconds).rate
    bulk = in_bulk if contestant.has_bulk else None
    return Turn(singly, bulk, (first.rate, second), weight)


def _weight(file: Path, jobs: int) -> float:
    clear_log(file)
    return file.stat().st_size / jobs


def _drain(stage: Stage, processes: int, jobs: int, limit: float) -> Drained:
    drained = drain(stage, processes, jobs, limit)
    if stage.contestant.name in OURS and drained.jobs >= jobs:
        with closing(SqliteStore(stage.file)) as store:
            left = unfinished(store)
        assert left == 0, f"{left} jobs have begun but not ended, so the time means nothing"
    return drained


# -- tables --------------------------------------------------------------------------------


def tables(turns: Turns, plan: PeersPlan) -> tuple[Table, Table]:
    """Jobs in, and jobs out."""
    return _enqueue_table(turns, plan), _drain_table(turns, plan)


def _enqueue_table(turns: Turns, plan: PeersPlan) -> Table:
    columns = (
        Column("contestant"),
        Column("one at a time, jobs/s", ",.0f"),
        Column("Stoker ÷ it", ".2f"),
        Column("in bulk, jobs/s", ",.0f"),
        Column("Stoker ÷ it", ".2f"),
        Column("bytes a queued job", ",.0f"),
    )
    rows = []
    for name in turns:
        singly, in_bulk = singles(turns, name), bulks(turns, name)
        weight = median(turn.weight for turn in turns[name])
        pair = (*_beside(singles(turns, OURS[0]), singly), *_beside(bulks(turns, OURS[0]), in_bulk))
        rows.append((name, *pair, weight))
    note = (
        f"By one process, medians of {plan.rounds} rounds: {plan.singles:,} jobs a commit each, "
        f"{plan.jobs:,} jobs a thousand a commit. No figure: it has no such call. Bytes: the "
        "whole file, its indexes included; a payload has 100."
    )
    return Table("Beside peers: jobs in", columns, tuple(rows), note)


def _drain_table(turns: Turns, plan: PeersPlan) -> Table:
    columns = [Column("contestant")]
    for crowd in CROWDS:
        columns.append(Column(f"{crowd} process{'es' * (crowd > 1)}, jobs/s", ",.0f"))
        columns.append(Column("best", ",.0f"))
        columns.append(Column("Stoker ÷ it", ".2f"))
    rows = []
    for name in turns:
        cells: list[Cell] = [name]
        for place in range(len(CROWDS)):
            theirs = drains(turns, name, place)
            middle, share = _beside(drains(turns, OURS[0], place), theirs)
            cells += [middle, max(theirs, default=None), share]
        rows.append(tuple(cells))
    note = (
        f"Jobs that do nothing, {backlog(plan):,} in the queue, for at most "
        f"{plan.seconds:g} s; medians and best of {plan.rounds} rounds. Raw: claim and finish in "
        f"two commits, batches of {BATCH}, no handlers at all."
    )
    return Table("Beside peers: jobs out", tuple(columns), tuple(rows), note)


def _beside(ours: Sequence[float], theirs: Sequence[float]) -> tuple[Cell, Cell]:
    if not theirs:
        return None, None
    return median(theirs), None if theirs == ours else ratio(ours, theirs)


def singles(turns: Turns, name: str) -> list[float]:
    """Its rates at enqueuing one at a time."""
    return [turn.singly for turn in turns[name]]


def bulks(turns: Turns, name: str) -> list[float]:
    """Its rates at enqueuing in bulk, if it can."""
    return [turn.in_bulk for turn in turns[name] if turn.in_bulk is not None]


def drains(turns: Turns, name: str, place: int = 0) -> list[float]:
    """Its rates at draining with a number of processes, if it can."""
    return [rate for turn in turns[name] if (rate := turn.drained[place]) is not None]
