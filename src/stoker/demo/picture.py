"""The show at a glance: bars for the queues and the films, places for the workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from stoker import Job, State
from stoker.demo.producers import LETTERS, ROUNDS, TENANTS
from stoker.demo.screen import BLUE, CYAN, DIM, GREEN, RED, YELLOW, Screen
from stoker.demo.tasks import PAGES
from stoker.desk.workers import WorkerView
from stoker.kernel.job import ENDED, LIVE
from stoker.store import QueueView

REPORTS = len(range(0, ROUNDS, 4))
PLAN = {
    "letters": ROUNDS * LETTERS,
    "orders": ROUNDS * len(TENANTS),
    "reports": REPORTS,
    "pages": REPORTS * PAGES,
}
WORKERS, PLACES = ("worker-1", "worker-2", "worker-3"), 4


class Picture:
    """Makes lines of what the store says."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def of(
        self, queues: Sequence[QueueView], films: Sequence[Job], workers: Sequence[WorkerView]
    ) -> list[str]:
        """All of it, from top to bottom."""
        counts = {view.name: view.counts for view in queues}
        bars = [self._queue(name, planned, counts.get(name, {})) for name, planned in PLAN.items()]
        return [*bars, *(self._film(job) for job in films), "", self._workers(workers)]

    def _queue(self, name: str, planned: int, counts: Mapping[State, int]) -> str:
        done = sum(counts.get(state, 0) for state in ENDED)
        notes = [f"{counts[s]} {s.name.lower()}" for s in sorted(LIVE) if counts.get(s)]
        if counts.get(State.FAILED):
            notes.append(self._screen.paint(f"{counts[State.FAILED]} failed", RED))
        bar = self._screen.bar(done, planned, GREEN)
        return f"  {name:9}{bar} {done:3} of {planned:<3}  {'  '.join(notes)}"

    def _film(self, job: Job) -> str:
        colour = {State.FINISHED: GREEN, State.CANCELLED: RED}.get(job.state, BLUE)
        done = 1.0 if job.state is State.FINISHED else job.progress
        told = job.meta or ""
        if job.state in (State.QUEUED, State.CANCELLED):
            told += self._screen.paint(f"  {job.state.name.lower()}", YELLOW)
        return f"  {'film':9}{self._screen.bar(done, 1, colour)} {done:8.0%}   {told}"

    def _workers(self, views: Sequence[WorkerView]) -> str:
        held = {view.name: view.held for view in views if view.alive}
        return "  " + "   ".join(self._worker(name, held.get(name)) for name in WORKERS)

    def _worker(self, name: str, held: int | None) -> str:
        if held is None:
            return f"{self._screen.paint(name, DIM)} {'away':{PLACES}}"
        return f"{name} {self._screen.bar(held, PLACES, CYAN, width=PLACES)}"


def totals(queues: Sequence[QueueView]) -> Counter[State]:
    """How many jobs there are in each state."""
    return sum((Counter(view.counts) for view in queues), Counter[State]())


def in_words(queues: Sequence[QueueView]) -> str:
    """The same in a line, for where nothing can be drawn."""
    counts = totals(queues)
    return ", ".join(f"{state.name.lower()} {counts[state]}" for state in State)
