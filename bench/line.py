"""A queue of ours with real processes: one that fills it, and a worker that drains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from bench.engines.engine import Places
from bench.ours import configure, unfinished
from bench.peers.cast import ours
from bench.peers.drain import drain, drain_out
from bench.peers.stage import Company, Stage, enqueuer, staged
from bench.plan import Setup
from bench.stopwatch import race
from stoker.kernel.queue import QueueSettings
from stoker.store.open import open_store

K = TypeVar("K")

_PATIENCE = 600.0


class Line(NamedTuple):
    """The queue, and the process that fills it."""

    stage: Stage
    till: Company

    def configure(self, settings: QueueSettings) -> None:
        """Give the queue its settings."""
        with closing(open_store(self.stage.place.url)) as store:
            configure(store, settings)

    def fill(self, count: int) -> None:
        """Enqueue jobs that do nothing."""
        self.till.enqueue("many", count)

    def fill_up(self, length: int) -> None:
        """Enqueue as many as are missing: a worker does some jobs more before it has ended."""
        with closing(open_store(self.stage.place.url)) as store:
            missing = length - unfinished(store)
        self.fill(missing)

    def drain(self, count: int) -> float:
        """Let one worker process do so many of the jobs; how many a second."""
        return drain(self.stage, 1, count, _PATIENCE).rate

    def turn(self, count: int) -> float:
        """Fill the empty queue and drain it again; jobs a second."""
        self.fill(count)
        drained = drain_out(self.stage, 1, count, _PATIENCE)
        assert drained.jobs == count, f"{drained.jobs:,} of {count:,} jobs were done"
        return drained.rate


@contextmanager
def opened(places: Places, folder: Path, keys: int = 0) -> Iterator[Line]:
    """An empty queue in a new place, for jobs of so many keys by turns."""
    with staged(ours("async", keys), places, folder) as stage, enqueuer(stage) as till:
        yield Line(stage, till)


def in_turns(
    turns: Mapping[K, Callable[[], float]], setup: Setup, what: str
) -> dict[K, list[float]]:
    """Race drains by workers. Where one round is enough, none goes before it to warm up."""
    rounds = setup.plan.worker_rounds
    return race(turns, rounds, setup.along, what, warm_ups=int(rounds > 1))
