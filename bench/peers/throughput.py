"""How fast jobs go in and out, and what room they take while they wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.engines.engine import Engine, Raw
from bench.loop import Loop
from bench.peers.cast import OURS, Contestant, Fleet
from bench.peers.drain import drain_out
from bench.peers.lineup import Lineup, whole
from bench.peers.stage import Company, Stage, enqueuer, staged
from bench.plan import PeersPlan, Setup
from bench.result import Cell, Column, Table
from bench.stopwatch import race, ratio, seconds


class Turn(NamedTuple):
    """What one contestant reached in one round, in jobs a second. None: it has no such thing."""

    singly: float
    in_bulk: float | None
    drained: tuple[float | None, ...]
    """By the numbers of processes that the engine is tried with."""
    weight: float
    """Bytes for a queued job."""


Turns = dict[str, list[Turn]]


def measure(setup: Setup, lineup: Lineup) -> Turns:
    """Race all contestants, each in a new place in every round."""
    plan, engine = setup.plan.peers, lineup.engine
    turns: dict[str, Callable[[], Turn | None]] = {
        raw.name: partial(_raw_turn, raw, engine, setup.folder, plan) for raw in engine.raws
    }
    for contestant in lineup.contestants:
        turn = partial(_turn, contestant, engine, setup.folder, plan)
        turns[contestant.name] = partial(lineup.attempt, contestant, turn)
    what = "peers: enqueuing and draining"
    return whole(race(turns, plan.rounds, setup.along, what, warm_ups=0))


def _raw_turn(raw: Raw, engine: Engine, parent: Path, plan: PeersPlan) -> Turn:
    with engine.place(parent) as place, closing(raw.open(place)) as loop:
        _one_by_one(loop, plan.singles)
        singly = plan.singles / seconds(lambda: _one_by_one(loop, plan.singles))
        before, jobs = place.weight(), max(plan.jobs // raw.batch, 1) * raw.batch
        in_bulk = jobs / seconds(lambda: loop.fill(jobs))
        weight = (place.weight() - before) / jobs
        place.settle()
        drained = jobs / seconds(lambda: raw.drain(loop, jobs, raw.batch))
    others = (None,) * (len(engine.crowds) - 1)
    return Turn(singly, in_bulk, (drained, *others), weight)


def _one_by_one(loop: Loop, count: int) -> None:
    for _ in range(count):
        loop.fill(1)


def _turn(contestant: Contestant, engine: Engine, parent: Path, plan: PeersPlan) -> Turn:
    with (
        staged(contestant, engine, parent, contestant.looks[-1]) as stage,
        enqueuer(stage) as till,
    ):
        # The first jobs are dear: files grow, plans are made. A queue in use is past that.
        warm = till.enqueue("single", plan.singles, plan.seconds)
        singly = till.enqueue("single", plan.singles, plan.seconds)
        before = stage.place.weight()
        in_bulk = till.enqueue("many", plan.jobs, plan.seconds)
        weight = (stage.place.weight() - before) / in_bulk.jobs
        queued = warm.jobs + singly.jobs + in_bulk.jobs
        rates = tuple(_drains(stage, till, engine.crowds, queued, plan.seconds))
    return Turn(singly.rate, in_bulk.rate if contestant.has_bulk else None, rates, weight)


def _drains(
    stage: Stage, till: Company, crowds: Sequence[int], queued: int, limit: float
) -> Iterator[float | None]:
    missing = 0
    for crowd in crowds:
        if crowd > 1 and stage.contestant.fleet is Fleet.ALONE:
            yield None
            continue
        if missing:
            till.enqueue("many", missing)
        drained = drain_out(stage, crowd, queued, limit)
        missing = drained.jobs
        yield drained.rate


# -- tables --------------------------------------------------------------------------------


def tables(turns: Turns, plan: PeersPlan, engine: Engine) -> tuple[Table, Table]:
    """Jobs in, and jobs out."""
    return _enqueue_table(turns, plan, engine), _drain_table(turns, plan, engine)


def _enqueue_table(turns: Turns, plan: PeersPlan, engine: Engine) -> Table:
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
        pair = (*_beside(singles(turns, OURS[0]), singly), *_beside(bulks(turns, OURS[0]), in_bulk))
        rows.append((name, *pair, weight(turns, name)))
    note = (
        f"By one process, medians of {plan.rounds} rounds: {plan.singles:,} jobs a call each, then "
        f"{plan.jobs:,} jobs a thousand a call, or as many as fit into {plan.seconds:g} s. No "
        f"figure: it has no such call. Bytes: what {engine.weighs} grew by; a payload has 100."
    )
    return Table("Beside peers: jobs in", columns, tuple(rows), note)


def _drain_table(turns: Turns, plan: PeersPlan, engine: Engine) -> Table:
    columns = [Column("contestant")]
    for crowd in engine.crowds:
        columns.append(Column(f"{crowd} process{'es' * (crowd > 1)}, jobs/s", ",.0f"))
        columns.append(Column("best", ",.0f"))
        columns.append(Column("Stoker ÷ it", ".2f"))
    rows = []
    for name in turns:
        cells: list[Cell] = [name]
        for place in range(len(engine.crowds)):
            theirs = drains(turns, name, place)
            middle, share = _beside(drains(turns, OURS[0], place), theirs)
            cells += [middle, max(theirs, default=None), share]
        rows.append(tuple(cells))
    note = (
        f"Jobs that do nothing, up to {plan.jobs + 2 * plan.singles:,} in the queue, for at most "
        f"{plan.seconds:g} s; medians and best of {plan.rounds} rounds. Raw: claim and finish "
        f"{_ways(engine)}, no handlers at all. {_ABOUT_KEEPING[engine.keeps]}"
    )
    return Table("Beside peers: jobs out", tuple(columns), tuple(rows), note)


_ABOUT_KEEPING = {
    True: "Raw and Stoker keep finished jobs; what peers keep stands in their table.",
    False: "Nothing is kept of finished jobs, unless the name or the table of peers says so.",
}


def _ways(engine: Engine) -> str:
    sizes = sorted({raw.batch for raw in engine.raws})
    return f"in batches of {' or '.join(map(str, sizes))}"


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


def weight(turns: Turns, name: str) -> float:
    """Its bytes for a queued job."""
    return median(turn.weight for turn in turns[name])
