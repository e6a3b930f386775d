"""Walking a queue with care, for engines that keep jobs in lanes.

Jobs that share a limit stand in one lane: those of a key, those of a task that has a limit, those
of both. Only the foremost job of a lane is looked at, so that a lane without room costs nothing,
however many jobs it has. What is foremost in the queue is found by merging its lanes with the jobs
that stand in none; `Turnstile` decides who may start, `Turns` whose turn it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from heapq import heappop, heappush
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from stoker.kernel.admission import Admission, Turnstile
from stoker.kernel.queue import QueueSettings
from stoker.kernel.turns import Party, Turns
from stoker.store.choosing import ordering


class Laned(Protocol):
    """As much of a job as decides on its lane."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str | None: ...
    @property
    def weight(self) -> int: ...


class Candidate(Laned, Protocol):
    """As much of a job as has to be known to choose it."""

    @property
    def id(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def due_at(self) -> int: ...


C = TypeVar("C", bound=Candidate)
Place = tuple[int, int, int]
"""As `ordering` makes them."""


class Lanes(Protocol[C]):
    """What an engine shows of one queue's due jobs. Each iterator goes by the queue's order, and in
    a fair queue by turns before that."""

    def laneless(self) -> list[Iterator[C]]:
        """The jobs that stand in no lane."""

    def free(self) -> list[Iterator[C]]:
        """The jobs of weight 0."""

    def heads(self, task: str | None) -> list[Iterator[C]]:
        """The foremost jobs of lanes that are not shut: of a limited task's, or of no such."""

    def after(self, head: C) -> Place | None:
        """Where the next job of the same lane and rank stands, in the queue's order, at the
        earliest; None if there is none."""

    def behind(self, head: C) -> Iterator[C]:
        """The jobs of the same lane and rank behind a head."""


def limited_tasks(settings: QueueSettings) -> list[str]:
    """The tasks that have lanes of their own."""
    return sorted({*settings.tasks, *settings.task_rates})


class _Source(Enum):
    """Where a candidate comes from, hence who is behind it."""

    LINE = 0
    """Jobs without a lane, or of weight 0."""
    HEADS = 1
    """Heads of lanes; behind one are other heads, and its lane."""
    HEAD = 2
    """A head that has left the others; behind it is its lane."""
    LANE = 3
    PROMISE = 4
    """A head that was taken, in the next one's place; its lane is looked at when that comes."""


class _Entry(NamedTuple, Generic[C]):
    """A candidate that nobody from its source precedes."""

    turn: int
    place: Place
    candidate: C
    source: _Source
    line: Iterator[C]


_NOBODY: Iterator[Any] = iter(())


class LanedLine(Generic[C]):
    """One queue's due jobs during one claim; the same questions as to a `choosing.Line`."""

    def __init__(
        self, lanes: Lanes[C], turnstile: Turnstile, turns: Turns | None, *, lent: bool = False
    ) -> None:
        self.turnstile = turnstile
        self._lent = lent
        self.full: list[tuple[C, int | None]] = []
        """Foremost jobs of lanes whose key has no room, and when it will have (None: an end must
        make it)."""
        self._lanes = lanes
        self.turns = turns
        self._order = ordering(turnstile.settings)
        self._entries: list[_Entry[C]] = []
        self._beyond: list[_Entry[C]] = []
        self._served: set[Party] = set()

    def open(self) -> None:
        """Look at the foremost of every source."""
        lanes = self._lanes
        tasks = [None, *limited_tasks(self.turnstile.settings)]
        for line in [*lanes.laneless(), *lanes.free()]:
            self._advance(_Source.LINE, line)
        for line in [line for task in tasks for line in lanes.heads(task)]:
            self._advance(_Source.HEADS, line)

    def _advance(self, source: _Source, line: Iterator[C]) -> None:
        for candidate in line:
            if source is _Source.HEADS and candidate.key in self._served:
                # It has had a turn since the heads were put in order; the next may be before it.
                self._push(candidate, _Source.HEAD, _NOBODY)
                continue
            self._push(candidate, source, line)
            return

    def _push(self, candidate: C, source: _Source, line: Iterator[C]) -> None:
        entry = _Entry(self._turn(candidate), self._order(candidate), candidate, source, line)
        heappush(self._entries, entry)

    def _turn(self, candidate: C) -> int:
        return 0 if self.turns is None else self.turns.of(candidate.key, candidate.weight)

    def head(self) -> C | None:
        """The foremost candidate whose key and task have room."""
        if self.turnstile.full:
            # Who waits for no room goes on. What is sorted is a heap.
            self._entries = sorted(each for each in self._entries if not each.candidate.weight)
        while self._entries:
            entry = self._entries[0]
            candidate = entry.candidate
            if self.turns is not None and self._turn(candidate) != entry.turn:
                self._put_back()
                continue
            if entry.source is _Source.PROMISE:
                heappop(self._entries)
                self._advance(_Source.LANE, self._lanes.behind(candidate))
                continue
            barred = self.turnstile.bars(
                candidate.key, candidate.name, candidate.weight, lent=self._lent
            )
            if barred is None:
                return candidate
            self._pass_over(heappop(self._entries), barred)
        return None

    def _pass_over(self, entry: _Entry[C], barred: Admission) -> None:
        candidate = entry.candidate
        if barred is Admission.KEY_FULL:
            assert candidate.key is not None
            self.full.append((candidate, self.turnstile.key_opens_at(candidate.key)))
        elif barred is Admission.SHARE_FULL:
            self._beyond.append(entry._replace(source=_Source.LANE, line=self._behind(entry)))
        if entry.source is _Source.HEADS and barred is not Admission.TASK_FULL:
            self._advance(entry.source, entry.line)  # where it is, all heads are of that task

    def _put_back(self) -> None:
        """The foremost one's key has had a turn meanwhile, with a job of another rank or task."""
        entry = heappop(self._entries)
        turn = self._turn(entry.candidate)
        if entry.source is _Source.HEADS:
            heappush(self._entries, entry._replace(turn=turn, source=_Source.HEAD, line=_NOBODY))
            self._advance(entry.source, entry.line)
        else:
            heappush(self._entries, entry._replace(turn=turn))

    def ask(self, candidate: C) -> bool:
        """May the foremost candidate start? It leaves the line, whatever the answer."""
        entry = heappop(self._entries)
        if not self.turnstile.enter(candidate.key, candidate.name, candidate.weight):
            return False
        if self.turns is not None:
            self.turns.taken(candidate.key, candidate.weight)
            self._served.add(candidate.key)
        if entry.source is not _Source.LINE:
            self._look_behind(entry)
        if entry.source in (_Source.LINE, _Source.HEADS):
            self._advance(entry.source, entry.line)
        return True

    def _look_behind(self, entry: _Entry[C]) -> None:
        candidate = entry.candidate
        if candidate.key is not None and self.turnstile.key_is_full(candidate.key):
            self.full.append((candidate, None))
        elif entry.source is _Source.LANE:
            self._advance(_Source.LANE, entry.line)
        elif (place := self._lanes.after(candidate)) is not None:
            promise = _Entry(self._turn(candidate), place, candidate, _Source.PROMISE, _NOBODY)
            heappush(self._entries, promise)

    def _behind(self, entry: _Entry[C]) -> Iterator[C]:
        if entry.source is _Source.LANE:
            return entry.line
        return self._lanes.behind(entry.candidate)

    def beyond(self) -> LanedLine[C]:
        """The line of those that were beyond their share."""
        line = LanedLine(self._lanes, self.turnstile, self.turns, lent=True)
        line.full = self.full
        for entry in self._beyond:
            line._push(entry.candidate, entry.source, entry.line)
        return line
