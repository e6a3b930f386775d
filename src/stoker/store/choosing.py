"""Which jobs a claim gets, as it is meant: what engines do with indexes, said with lists.

Every queue is a line. The foremost jobs of the lines whose key and task have room are compared by
rank, time and arrival; the best is taken if its queue has room, too, or passed over. When all lines
are through, jobs that were beyond their share may have what nobody else wanted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from stoker.kernel.admission import Admission, Turnstile
from stoker.kernel.job import Job, place
from stoker.kernel.queue import Order, QueueSettings
from stoker.kernel.turns import Party, Turns

C = TypeVar("C")


class Laned(Protocol):
    """As much of a job as decides on its lane."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str | None: ...
    @property
    def weight(self) -> int: ...


L = TypeVar("L", bound=Laned)


def ordering(settings: QueueSettings) -> Callable[[Any], tuple[int, int, int]]:
    """By what a queue sorts its jobs, or whatever else has rank, due time and id."""
    step = settings.ageing
    if step is not None:
        return lambda job: (job.rank * step + job.due_at, job.due_at, job.id)
    if settings.order is Order.TIME_RANK:
        return lambda job: (job.due_at, job.rank, job.id)
    return lambda job: (job.rank, job.due_at, job.id)


class Spot(NamedTuple):
    """As much of a job as decides on its place in line."""

    rank: int
    due_at: int
    id: int


class Line(Generic[L]):
    """One queue's due jobs during one claim, in its order."""

    def __init__(self, jobs: Iterable[L], turnstile: Turnstile, *, lent: bool = False) -> None:
        self.turnstile = turnstile
        self._lent = lent
        self._jobs = iter(jobs)
        self._head = next(self._jobs, None)
        self._beyond: list[L] = []

    def head(self) -> L | None:
        """The foremost job whose key and task have room."""
        while (job := self._foremost()) is not None:
            barred = self.turnstile.bars(job.key, job.name, job.weight, lent=self._lent)
            if barred is None:
                break
            self._leave(job)
            if barred is Admission.SHARE_FULL:
                self._beyond.append(job)
        return job

    def _foremost(self) -> L | None:
        return self._head

    def ask(self, job: L) -> bool:
        """May the foremost job start? It leaves the line, whatever the answer."""
        self._leave(job)
        return self.turnstile.enter(job.key, job.name, job.weight)

    def _leave(self, job: L) -> None:  # noqa: ARG002 - which it is matters where turns are taken
        self._head = next(self._jobs, None)

    def beyond(self) -> Line[L]:
        """The line of those that were beyond their share."""
        return Line(self._beyond, self.turnstile, lent=True)


class FairLine(Line[Job]):
    """One queue's due jobs, of which each key's go by the queue's order while keys take turns."""

    def __init__(
        self, jobs: Iterable[Job], turnstile: Turnstile, turns: Turns, *, lent: bool = False
    ) -> None:
        super().__init__((), turnstile, lent=lent)
        self._order = ordering(turnstile.settings)
        self._turns = turns
        self._parties: dict[tuple[Party, bool], deque[Job]] = {}
        for job in jobs:
            self._parties.setdefault(_party(job), deque()).append(job)

    def _foremost(self) -> Job | None:
        heads = [jobs[0] for jobs in self._parties.values() if jobs]
        return min(heads, key=self._place, default=None)

    def _place(self, job: Job) -> tuple[int, tuple[int, int, int]]:
        return self._turns.of(job.key, job.weight), self._order(job)

    def ask(self, job: Job) -> bool:
        entered = super().ask(job)
        if entered:
            self._turns.taken(job.key, job.weight)
        return entered

    def _leave(self, job: Job) -> None:
        self._parties[_party(job)].popleft()

    def beyond(self) -> Line[Job]:
        jobs = sorted(self._beyond, key=self._order)
        return FairLine(jobs, self.turnstile, self._turns, lent=True)


def _party(job: Job) -> tuple[Party, bool]:
    return job.key, job.weight == 0


class AnyLine(Protocol[C]):
    """Due jobs before a turnstile, kept as lists or as an engine keeps them."""

    def head(self) -> C | None: ...
    def ask(self, job: C) -> bool: ...
    def beyond(self) -> AnyLine[C]: ...


def choose(lines: Sequence[AnyLine[C]], limit: int) -> list[C]:
    """Up to so many jobs that may start, in the order in which they may."""
    chosen = _pass(lines, limit)
    if len(chosen) < limit:
        chosen += _pass([line.beyond() for line in lines], limit - len(chosen))
    return chosen


def _pass(lines: Sequence[AnyLine[C]], limit: int) -> list[C]:
    foremost = _only(lines[0]) if len(lines) == 1 else _best(lines)
    admitted = (job for job, line in foremost if line.ask(job))
    return list(islice(admitted, limit))


def _only(line: AnyLine[C]) -> Iterator[tuple[C, AnyLine[C]]]:
    while (job := line.head()) is not None:
        yield job, line


def _best(lines: Sequence[AnyLine[C]]) -> Iterator[tuple[C, AnyLine[C]]]:
    """The best of the foremost jobs, again and again."""
    while heads := [(job, line) for line in lines if (job := line.head()) is not None]:
        yield min(heads, key=_place_of_head)


def _place_of_head(head: tuple[Any, Any]) -> tuple[int, int, int]:
    return place(head[0])
