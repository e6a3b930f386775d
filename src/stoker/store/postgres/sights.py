"""One queue's due jobs as `stoker.store.walk` wants to see them: read a page at a time.

The first page of everything comes with the first look, so that most claims need no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from stoker.kernel.admission import of_task
from stoker.store.choosing import ordering
from stoker.store.postgres.claim import mark_arrays
from stoker.store.postgres.entrances import Entrances
from stoker.store.postgres.marks import Mark, Place
from stoker.store.postgres.rows import FREE_LANE, Row, party_of
from stoker.store.postgres.texts import read, written

Ask = Callable[..., list[Row]]
"""Run a statement of the walk, by its name."""

_BEFORE_ALL = -(2**63)
_LAST_TURN = 2**63 - 1
_ID, _DUE_AT, _FACTS = 2, 5, slice(2, 10)
_FEW, _TURN, _MAJOR, _MINOR, _HEAD, _SPOT, _USED, _FLOW = range(10, 18)


class Candidate(NamedTuple):
    """A job that may be next: as much of it as has to be known to choose it."""

    id: int
    revision: int
    bucket: int
    due_at: int
    rank: int
    name: str
    key: str | None
    weight: int

    @property
    def place(self) -> Place:
        """Its place in its bucket."""
        return (self.due_at, self.rank - self.bucket, self.id)


def _candidate(row: Sequence[Any]) -> Candidate:
    number, revision, bucket, due_at, rank, name, key, weight = row
    key = None if key is None else read(key)
    return Candidate(number, revision, bucket, due_at, rank, read(name), key, weight)


class Lane:
    """What was seen of a lane: where its head is kept, and its first jobs, due or not."""

    __slots__ = ("jobs", "kind", "spot", "whole")

    def __init__(self, kind: str, spot: bytes, jobs: list[Candidate], *, whole: bool) -> None:
        self.kind = kind
        self.spot = spot
        self.jobs = jobs
        self.whole = whole
        """Has it no others?"""


class Sights:
    """What is seen of one queue."""

    def __init__(
        self,
        ask: Ask,
        queue: str,
        rows: Iterable[Row],
        entrances: Entrances,
        marks: Iterable[Mark],
        most: int,
    ) -> None:
        self._ask = ask
        self.queue = queue
        self.settings = entrances.known(queue).settings
        self.entrances = entrances
        self._places = {
            mark.bucket: mark.place for mark in marks if mark.queue == queue and not mark.past_lanes
        }
        self._most = most
        self._rows: dict[str | None, list[Row]] = {}
        for row in rows:
            self._rows.setdefault(row[1], []).append(row)
        self.order = ordering(self.settings)
        self.lanes: dict[int, Lane] = {}
        """Those that were looked at, by their heads."""
        self.laneless_ids: set[int] = set()

    # -- jobs without a lane ---------------------------------------------------------------

    def laneless(self) -> list[Iterator[Candidate]]:
        return [self._laneless(self._rows.get(None, []))]

    def _laneless(self, rows: list[Row]) -> Iterator[Candidate]:
        while rows:
            for candidate in [_candidate(row[_FACTS]) for row in rows]:
                self.laneless_ids.add(candidate.id)
                self._places[candidate.bucket] = candidate.place
                yield candidate
            if len(rows) < self._most:
                break
            rows = self._line_behind(candidate.bucket)

    def _line_behind(self, bucket: int) -> list[Row]:
        behind = _BEFORE_ALL if self.settings.ageing else bucket - 1
        marks = [Mark("", bucket, place) for bucket, place in self._places.items()]
        line = (written(self.queue), self.entrances.now, self._most, behind)
        return self._ask("line", *line, *mark_arrays(marks)[1:])

    # -- jobs of weight 0 ------------------------------------------------------------------

    def free(self) -> list[Iterator[Candidate]]:
        free = [_candidate(row[_FACTS]) for row in self._rows.get(FREE_LANE, ())]
        buckets = groupby(free, key=attrgetter("bucket"))
        return [self._free(list(candidates)) for _, candidates in buckets]

    def _free(self, page: list[Candidate]) -> Iterator[Candidate]:
        while page:
            yield from page
            if len(page) < self._most:
                break
            last = page[-1]
            spot = (written(self.queue), last.bucket, self.entrances.now, *last.place)
            page = [_candidate(row) for row in self._ask("free", *spot, self._most)]

    # -- lanes -----------------------------------------------------------------------------

    def heads(self, task: str | None) -> list[Iterator[Candidate]]:
        kind = "" if task is None else "~" + task
        rows = self._rows.get(written(kind), [])
        # Those that are not before others have no number, so there are two orders side by side.
        level = [row for row in rows if row[_TURN] == 0]
        ahead = [row for row in rows if row[_TURN] > 0]
        return [self._heads(kind, level, 0), self._heads(kind, ahead, _LAST_TURN)]

    def _heads(self, kind: str, rows: list[Row], last_turn: int) -> Iterator[Candidate]:
        while rows:
            lanes = [list(lane) for _, lane in groupby(rows, key=itemgetter(_HEAD))]
            yield from [head for lane in lanes if (head := self._see(kind, lane)) is not None]
            if len(lanes) < self._most:
                break
            after = [rows[-1][column] for column in (_TURN, _MAJOR, _MINOR, _HEAD)]
            line = (written(self.queue), written(kind), self.entrances.now, self._most)
            rows = self._ask("heads", *line, last_turn, *after)

    def _see(self, kind: str, rows: list[Row]) -> Candidate | None:
        """A lane's head, unless nobody is there by now, or nobody who is due."""
        first = rows[0]
        if first[_ID] is None or first[_DUE_AT] > self.entrances.now:
            return None
        jobs = [_candidate(row[_FACTS]) for row in rows]
        head = jobs[0]
        if head.key is not None:
            self.entrances.learn_key(self.queue, head.key, first[_TURN], first[_USED], first[_FLOW])
        whole = len(jobs) < first[_FEW]
        self.lanes[head.id] = Lane(kind, first[_SPOT], jobs, whole=whole)
        return head

    def after(self, head: Candidate) -> Place | None:
        lane = self.lanes[head.id]
        if len(lane.jobs) == 1:
            return None if lane.whole else self.order(head)
        following = lane.jobs[1]
        return self.order(following) if following.due_at <= self.entrances.now else None

    def behind(self, head: Candidate) -> Iterator[Candidate]:
        lane, place = self.lanes[head.id], 1
        while place < len(lane.jobs) or self._see_more(lane):
            if lane.jobs[place].due_at > self.entrances.now:
                break
            yield lane.jobs[place]
            place += 1

    def kind_of(self, job: Candidate) -> str:
        """The kind of lane in which a job stands that has a key or a task with a limit."""
        return of_task(job.name) if self.settings.limits_task(job.name) else ""

    def _see_more(self, lane: Lane) -> bool:
        """Has a lane others than those that were seen?"""
        if lane.whole:
            return False
        last = lane.jobs[-1]
        spot = (written(self.queue), written(lane.kind), written(party_of(last.key)), last.bucket)
        page = self._ask("behind", *spot, *last.place, self._most)
        lane.jobs += [_candidate(row) for row in page]
        lane.whole = len(page) < self._most
        return bool(page)
