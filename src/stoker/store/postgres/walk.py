"""Walking queues with care: as far as capacity lets jobs in, and several orders side by side.

The limited ones are locked against other claims meanwhile. Jobs with a key stand in lanes, of
which only the heads are looked at, so that a key without room costs nothing, however many jobs it
has. What does not fit stays; `Turnstile` decides.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from enum import Enum
from heapq import heappop, heappush, merge
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

from stoker.kernel.admission import Admission, Turnstile
from stoker.kernel.job import Job
from stoker.store import Claim
from stoker.store.postgres.arrays import Bigints, Texts
from stoker.store.postgres.claim import mark_arrays
from stoker.store.postgres.driver import Connection
from stoker.store.postgres.marks import Mark, Marks
from stoker.store.postgres.rows import Row, job_of, settings_of
from stoker.store.postgres.schema import named
from stoker.store.postgres.texts import read, written

_FEW = 4
_BEFORE_ALL = -(2**63)


class Walker:
    """Serves claims within a transaction."""

    def __init__(self, connection: Connection, schema: str, marks: Marks) -> None:
        self._connection = connection
        self._sql = named(schema, "walk.sql")
        self._marks = marks

    def run(self, name: str, *values: Any) -> list[Row]:
        """All rows of a statement."""
        return self._connection.execute(self._sql[name], values).fetchall()

    def change(self, name: str, *values: Any) -> None:
        """Run a statement that has nothing to say."""
        self._connection.execute(self._sql[name], values)

    def serve(self, claim: Claim, given: int | None) -> list[Job]:
        """Start the foremost due jobs that may enter, by the clock given or the server's."""
        began, queues = time.monotonic(), list(dict.fromkeys(claim.queues))
        marks = self._marks.for_claim(queues)
        (_, _, now), *rows = self.run("attend", given, Texts.of(queues))
        known = {read(name): rest for name, *rest in rows}
        walks = [
            _Walk(self, queue, known.get(queue, ["{}", 0]), claim.limit, now, marks)
            for queue in queues
        ]
        lines = [iter(walk) for walk in walks]
        chosen = list(islice(merge(*lines, key=_place), claim.limit))
        jobs = self._begin(chosen, claim, given)
        self._marks.note(began, whole=not marks, scarce=len(jobs) < claim.limit)
        for walk in walks:
            walk.shut_lanes()
            walk.move_marks(self._marks, jobs, whole=not marks)
        return jobs

    def _begin(self, chosen: list[Candidate], claim: Claim, given: int | None) -> list[Job]:
        """They start from now on, not from when the walk began: jobs whose end has made room for
        them may have ended meanwhile."""
        if not chosen:
            return []
        ids, revisions = [each.id for each in chosen], [each.revision for each in chosen]
        lease = (claim.token, claim.session, claim.visibility)
        rows = self.run("begin", given, *lease, Bigints.of(ids), Bigints.of(revisions))
        jobs = {job.id: job for job in map(job_of, rows[1:])}
        return [jobs[job_id] for job_id in ids if job_id in jobs]


class Candidate(NamedTuple):
    """A job that may be next: as much of it as admission has to know."""

    id: int
    revision: int
    bucket: int
    due_at: int
    second: int
    key: str | None
    weight: int

    @property
    def spot(self) -> tuple[int, int, int, int]:
        """Its place in its queue's order."""
        return (self.bucket, self.due_at, self.second, self.id)


def _place(candidate: Candidate) -> tuple[int, int, int]:
    """How queues compare their foremost jobs with one another: rank, then time, then arrival."""
    return (candidate.bucket + candidate.second, candidate.due_at, candidate.id)


def _candidate(row: Row) -> Candidate:
    number, revision, bucket, due_at, second, key, weight = row
    key = None if key is None else read(key)
    return Candidate(number, revision, bucket, due_at, second, key, weight)


class _Source(Enum):
    """Where the foremost jobs of a queue come from."""

    LANELESS = 0
    FREE = 1
    LANES = 2
    LANE = 3


class _Head(NamedTuple):
    """The foremost job of one source, and those behind it."""

    spot: tuple[int, int, int, int]
    candidate: Candidate
    source: _Source
    behind: Iterator[Candidate]


class _Walk:
    """One queue's due jobs in its order, as far as capacity lets them in."""

    def __init__(
        self,
        walker: Walker,
        queue: str,
        known: list[Any],
        limit: int,
        now: int,
        marks: list[Mark],
    ) -> None:
        self._walker = walker
        self._name = written(queue)
        self._settings = settings_of(known[0])
        self._used: int = known[1]
        self._limit = limit
        self._now = now
        self._marks = [mark for mark in marks if mark.queue == queue]
        self._key_used: dict[str, int] = {}
        self._few: dict[int, list[Candidate]] = {}
        self._laneless_ids: set[int] = set()
        self._full_lanes: list[Candidate] = []

    def __iter__(self) -> Iterator[Candidate]:
        if self._settings.paused:
            return iter(())
        return self._admitted() if self._settings.limited else self._laneless()

    def shut_lanes(self) -> None:
        """Nobody has to look at lanes without room until something happens to their keys."""
        for full in self._full_lanes:
            self._walker.change("shut", self._name, _lane(full), full.bucket)

    def move_marks(self, marks: Marks, jobs: list[Job], *, whole: bool) -> None:
        """Remember how far the line without lanes was claimed."""
        taken = [job for job in jobs if job.id in self._laneless_ids]
        marks.move(taken, self._settings.order, self._now, whole=whole)

    def _admitted(self) -> Iterator[Candidate]:
        turnstile = Turnstile(self._settings, self._used, self._used_by)
        heads: list[_Head] = []
        _queue_up(heads, _Source.LANELESS, self._laneless())
        _queue_up(heads, _Source.FREE, self._free())
        _queue_up(heads, _Source.LANES, self._lanes())
        while heads:
            _, candidate, source, behind = heappop(heads)
            admission = turnstile.ask(candidate.key, candidate.weight)
            if admission is Admission.QUEUE_FULL:
                heads = [other for other in heads if other.source is _Source.FREE]
                continue  # at most one is left, so it is still a heap
            if admission is Admission.KEY_FULL:
                self._full_lanes.append(candidate)
            else:
                yield candidate
                if source is _Source.LANES:
                    _queue_up(heads, _Source.LANE, self._behind(candidate))
            if admission is Admission.ENTER or source is not _Source.LANE:
                _queue_up(heads, source, behind)

    def _used_by(self, key: str) -> int:
        if self._settings.key_units(key) is None:
            return 0  # which nobody compares with anything
        if key not in self._key_used:
            ((used,),) = self._walker.run("held", self._name, written(key))
            self._key_used[key] = used
        return self._key_used[key]

    # -- lines, each in the queue's order, read a page at a time ---------------------------

    def _laneless(self) -> Iterator[Candidate]:
        marks, behind = self._marks, _BEFORE_ALL
        while page := self._page("line", self._limit, behind, *mark_arrays(marks)[1:]):
            for candidate in page:
                self._laneless_ids.add(candidate.id)
                yield candidate
            bucket, *place = page[-1].spot
            behind = bucket - 1
            marks = [mark for mark in marks if mark.bucket > bucket]
            marks.append(Mark("", bucket, (place[0], place[1], place[2])))

    def _free(self) -> Iterator[Candidate]:
        after = (_BEFORE_ALL, 0, 0, 0)
        while page := self._page("free_line", self._limit, *after):
            yield from page
            after = page[-1].spot

    def _lanes(self) -> Iterator[Candidate]:
        after = (_BEFORE_ALL, 0, 0, 0)
        while page := self._walker.run("lanes", self._name, self._now, self._limit, _FEW, *after):
            for (head, due_at, second, used), rows in groupby(page, key=itemgetter(0, 1, 2, 3)):
                first, *rest = [_candidate(row[4:]) for row in rows]
                self._key_used.setdefault(first.key or "", used)
                self._few[first.id] = rest
                yield first
                after = (first.bucket, due_at, second, head)

    def _behind(self, first: Candidate) -> Iterator[Candidate]:
        page = self._few.pop(first.id)
        yield from page
        while len(page) >= _FEW - 1:
            last = page[-1]
            place = (last.due_at, last.second, last.id)
            rows = self._walker.run(
                "behind", self._name, _lane(last), last.bucket, self._now, *place, self._limit
            )
            page = [_candidate(row) for row in rows]
            yield from page

    def _page(self, name: str, *values: Any) -> list[Candidate]:
        rows = self._walker.run(name, self._name, self._now, *values)
        return [_candidate(row) for row in rows]


def _queue_up(heads: list[_Head], source: _Source, line: Iterator[Candidate]) -> None:
    candidate = next(line, None)
    if candidate is not None:
        heappush(heads, _Head(candidate.spot, candidate, source, line))


def _lane(candidate: Candidate) -> str:
    return "=" + written(candidate.key or "")
