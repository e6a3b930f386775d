"""Workers with nothing to do: how soon they begin a job, and what it costs to be ready for it."""

from __future__ import annotations

import math
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.peers.cast import Contestant
from bench.peers.drain import race_to_the_end
from bench.peers.footprint import Footprint, footprint
from bench.peers.lineup import Lineup, whole
from bench.peers.stage import PATIENCE, Company, Stage, Trouble, enqueuer, workers
from bench.plan import PeersPlan, Setup
from bench.result import Cell, Column, Table
from bench.stopwatch import percentile, race

_WARM_UPS = 3
_SHORTEST_BREATH, _LONGEST_BREATH = 0.005, 0.02
_SETTLING = 1.0


class Way(NamedTuple):
    """A contestant's worker that looks for work in one of its ways."""

    contestant: Contestant
    look: float | None

    @property
    def interval(self) -> float:
        """Seconds between two looks; 0 if it is woken."""
        return self.contestant.interval if self.look is None else self.look

    @property
    def names(self) -> tuple[str, str]:
        """The contestant's, and the way's."""
        finds = f"looks every {self.interval * 1e3:g} ms" if self.interval else "is woken"
        return self.contestant.name, finds


class Wait(NamedTuple):
    """What a worker does while it waits."""

    names: tuple[str, str]
    latencies: list[float]
    """Milliseconds from the call of enqueue to the handler's beginning."""
    idle: Footprint | None
    """Of all its processes in a second; None where the system does not tell."""

    @property
    def p50(self) -> float:
        """Half of the jobs began within this time."""
        return percentile(self.latencies, 50)


def measure(setup: Setup, lineup: Lineup) -> list[Wait]:
    """Latencies turn by turn; then all workers are watched at the same time."""
    ways = [Way(one, look) for one in lineup.contestants for look in one.looks]
    found = _latencies(setup, lineup, ways)
    idle = _idleness(setup, lineup, [way for way in ways if way.names in found])
    return [
        Wait(names, [each for turn in turns for each in turn], idle.get(names))
        for names, turns in found.items()
    ]


@contextmanager
def _at_work(way: Way, parent: Path, used: int = 0) -> Iterator[tuple[Company, Company]]:
    """An enqueuer and a worker, with a file through which so many jobs have passed."""
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        stage = Stage(way.contestant, Path(folder), way.look)
        with enqueuer(stage) as till, workers(stage) as company:
            if used:
                till.order(f"single {used}")
                if race_to_the_end(stage, company, used, PATIENCE).jobs < used:
                    raise Trouble(f"{used} jobs were not done within {PATIENCE:g} s")
            for _ in range(_WARM_UPS):
                _send(till, company)
            yield till, company


def _send(till: Company, company: Company) -> float:
    """Milliseconds that one job took."""
    till.order("stamp")
    return company.hear("started").figures[0] / 1e6


def _latencies(
    setup: Setup, lineup: Lineup, ways: list[Way]
) -> dict[tuple[str, str], list[list[float]]]:
    plan = setup.plan.peers
    turns: dict[tuple[str, str], Callable[[], list[float] | None]] = {}
    for way in ways:
        turn = partial(_turn, way, setup.folder, plan)
        turns[way.names] = partial(lineup.attempt, way.contestant, turn)
    return whole(race(turns, plan.rounds, setup.along, "peers: latency", warm_ups=0))


def _turn(way: Way, parent: Path, plan: PeersPlan) -> list[float]:
    share = math.ceil(plan.latencies / plan.rounds)
    # Commits are dear until the log has its full length; a queue in use has left that behind.
    with _at_work(way, parent, plan.singles) as (till, company):
        deadline = time.monotonic() + plan.seconds
        times: list[float] = []
        while len(times) < share and time.monotonic() < deadline:
            # Jobs must not come in step with the looks, but at any moment between two of them.
            time.sleep(random.uniform(_SHORTEST_BREATH, _LONGEST_BREATH + way.interval))
            times.append(_send(till, company))
    return times


def _idleness(
    setup: Setup, lineup: Lineup, ways: list[Way]
) -> dict[tuple[str, str], Footprint | None]:
    seconds = setup.plan.peers.idle
    with ExitStack() as stack:
        watched: dict[tuple[str, str], list[int]] = {}
        for way in ways:
            entered = partial(stack.enter_context, _at_work(way, setup.folder))
            companies = lineup.attempt(way.contestant, entered)
            if companies is not None:
                watched[way.names] = [process.pid for process in companies[1].processes]
        time.sleep(_SETTLING)
        before = {names: footprint(pids) for names, pids in watched.items()}
        for _ in setup.along(range(1), "peers: watching idle workers"):
            time.sleep(seconds)
        after = {names: footprint(pids) for names, pids in watched.items()}
    return {names: _spent(before[names], after[names], seconds) for names in watched}


def _spent(before: Footprint | None, after: Footprint | None, seconds: float) -> Footprint | None:
    if before is None or after is None:
        return None
    return Footprint(*((late - early) / seconds for early, late in zip(before, after, strict=True)))


def table(waits: list[Wait], plan: PeersPlan) -> Table:
    """Latency and what it costs, side by side: whoever looks more often begins sooner."""
    columns = (
        Column("contestant"),
        Column("and its worker"),
        Column("jobs"),
        Column("begun, p50 ms", ",.2f"),
        Column("p99 ms", ",.2f"),
        Column("idle, of a core", ".2%"),
        Column("idle, bytes written/s", ",.0f"),
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
