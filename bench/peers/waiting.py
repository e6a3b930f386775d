"""Workers with nothing to do: how soon they begin a job, and what it costs to be ready for it."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

from bench.engines.engine import Engine, Idler
from bench.footprint import is_told, processor
from bench.peers.cast import Contestant
from bench.peers.drain import race_to_the_end
from bench.peers.lineup import Lineup, whole
from bench.peers.stage import PATIENCE, Company, Stage, Trouble, enqueuer, staged, workers
from bench.plan import PeersPlan, Setup
from bench.result import Cell, Column, Table
from bench.stopwatch import percentile, race

_WARM_UPS = 3
_SHORTEST_BREATH, _LONGEST_BREATH = 0.005, 0.02
_SETTLING = 1.0

Names = tuple[str, str]
"""The contestant's, and the way's."""


class Way(NamedTuple):
    """A contestant's worker that looks for work in one of its ways."""

    contestant: Contestant
    look: float | None

    @property
    def interval(self) -> float:
        """Seconds between two looks; 0 if it is woken."""
        return self.contestant.interval if self.look is None else self.look

    @property
    def names(self) -> Names:
        """What tables call it."""
        finds = f"looks every {self.interval * 1e3:g} ms" if self.interval else "is woken"
        return self.contestant.name, finds


class Idle(NamedTuple):
    """What a worker uses in a second without a job."""

    processor: float
    """Seconds, of all its processes."""
    asked: float
    """Of the engine, in its own measure."""


class Wait(NamedTuple):
    """What a worker does while it waits."""

    names: Names
    latencies: list[float]
    """Milliseconds from the call of enqueue to the handler's beginning."""
    idle: Idle | None
    """None where the system does not tell."""

    @property
    def p50(self) -> float:
        """Half of the jobs began within this time."""
        return percentile(self.latencies, 50)


def measure(setup: Setup, lineup: Lineup) -> list[Wait]:
    """Latencies turn by turn; then all workers are watched at the same time."""
    waiters = [one for one in lineup.contestants if one.waits]
    ways = [Way(one, look) for one in waiters for look in one.looks]
    found = _latencies(setup, lineup, ways)
    there = [way for way in ways if way.names in found]
    idle = _idleness(setup, lineup, there) if is_told() else {}
    return [
        Wait(names, [each for turn in turns for each in turn], idle.get(names))
        for names, turns in found.items()
    ]


# -- latency -------------------------------------------------------------------------------


def _latencies(setup: Setup, lineup: Lineup, ways: list[Way]) -> dict[Names, list[list[float]]]:
    turns: dict[Names, Callable[[], list[float] | None]] = {}
    for way in ways:
        turn = partial(_turn, way, lineup.engine, setup)
        turns[way.names] = partial(lineup.attempt, way.contestant, turn)
    rounds = setup.plan.peers.rounds
    return whole(race(turns, rounds, setup.along, "peers: latency", warm_ups=0))


def _turn(way: Way, engine: Engine, setup: Setup) -> list[float]:
    plan = setup.plan.peers
    with (
        staged(way.contestant, engine, setup.folder, way.look) as stage,
        enqueuer(stage) as till,
        workers(stage) as company,
    ):
        _use(stage, till, company, plan)
        _warm_up(till, company)
        return list(_times(till, company, way.interval, plan))


def _use(stage: Stage, till: Company, company: Company, plan: PeersPlan) -> None:
    """The first jobs are dear: files grow, plans are made. A queue in use is past that."""
    jobs = till.enqueue("single", plan.singles, plan.seconds).jobs
    if race_to_the_end(stage, company, jobs, PATIENCE).jobs < jobs:
        raise Trouble(f"{jobs} jobs were not done within {PATIENCE:g} s")


def _warm_up(till: Company, company: Company) -> None:
    for _ in range(_WARM_UPS):
        _send(till, company)


def _send(till: Company, company: Company) -> float:
    """Milliseconds that one job took."""
    till.order("stamp")
    return company.hear("started").figures[0] / 1e6


def _times(till: Company, company: Company, interval: float, plan: PeersPlan) -> Iterator[float]:
    deadline = time.monotonic() + plan.seconds
    for _ in range(math.ceil(plan.latencies / plan.rounds)):
        # Jobs must not come in step with the looks, but at any moment between two of them.
        time.sleep(random.uniform(_SHORTEST_BREATH, _LONGEST_BREATH + interval))
        yield _send(till, company)
        if time.monotonic() > deadline:
            return


# -- idleness ------------------------------------------------------------------------------


def _idleness(setup: Setup, lineup: Lineup, ways: list[Way]) -> dict[Names, Idle]:
    seconds = setup.plan.peers.idle
    with ExitStack() as stack:
        idlers: dict[Names, Idler] = {}
        for way in setup.along(ways, "peers: starting idle workers"):
            entered = partial(stack.enter_context, _waiting(way, lineup.engine, setup))
            idler = lineup.attempt(way.contestant, entered)
            if idler is not None:
                idlers[way.names] = idler
        time.sleep(_SETTLING)
        before = [processor(idler.pids) for idler in idlers.values()]
        asked = lineup.engine.asked(list(idlers.values()), partial(_watch, setup))
        after = [processor(idler.pids) for idler in idlers.values()]
    return {
        names: Idle((late - early) / seconds, count / seconds)
        for names, early, late, count in zip(idlers, before, after, asked, strict=True)
    }


def _watch(setup: Setup) -> None:
    for _ in setup.along(range(1), "peers: watching idle workers"):
        time.sleep(setup.plan.peers.idle)


@contextmanager
def _waiting(way: Way, engine: Engine, setup: Setup) -> Iterator[Idler]:
    """A worker that has had its first jobs, and nobody there to send more."""
    with staged(way.contestant, engine, setup.folder, way.look) as stage, ExitStack() as stack:
        with enqueuer(stage) as till:
            company = stack.enter_context(workers(stage))
            _warm_up(till, company)
        yield Idler(stage.place, [process.pid for process in company.processes])


# -- the table -----------------------------------------------------------------------------


def table(waits: list[Wait], plan: PeersPlan, engine: Engine) -> Table:
    """Latency and what it costs, side by side: whoever looks more often begins sooner."""
    columns = (
        Column("contestant"),
        Column("and its worker"),
        Column("jobs"),
        Column("begun, p50 ms", ",.2f"),
        Column("p99 ms", ",.2f"),
        Column("idle, of a core", ".2%"),
        Column(f"idle, {engine.asks}", ",.1f"),
    )
    note = (
        "From the call of enqueue in one process to the beginning of the handler in another, on "
        f"an idle system; {plan.latencies} jobs, or as many as fit into "
        f"{plan.rounds * plan.seconds:g} s. Idle: all processes of a worker without jobs, "
        f"watched for {plan.idle:g} s."
    )
    return Table("Beside peers: waiting", columns, tuple(map(_row, waits)), note)


def _row(wait: Wait) -> tuple[Cell, ...]:
    times = wait.latencies
    percentiles = (percentile(times, 50), percentile(times, 99))
    return (*wait.names, len(times), *percentiles, *(wait.idle or (None, None)))
