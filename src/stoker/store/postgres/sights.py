"""One queue's due jobs as `stoker.store.walk` wants to see them: read a page at a time.

The first page of everything comes with the first look, so that most claims need no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from stoker.store.choosing import ordering
from stoker.store.postgres.claim import mark_arrays
from stoker.store.postgres.entrances import Entrances
from stoker.store.postgres.marks import Mark, Place
from stoker.store.postgres.rows import FREE_LANE, Row, lane_of, party_of
from stoker.store.postgres.texts import read, written

Ask = Callable[..., list[Row]]
"""Run a statement of the walk, by its name."""

_BEFORE_ALL = -(2**63)
_LAST_TURN = 2**63 - 1
_FACTS = slice(2, 10)
_FEW, _TURN, _MAJOR, _MINOR, _HEAD, _USED, _FLOW = range(10, 17)


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
    number, revision, bucket, due_at, second, name, key, weight = row
    key = None if key is None else read(key)
    return Candidate(number, revision, bucket, due_at, bucket + second, read(name), key, weight)


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
        self._places = {mark.bucket: mark.place for mark in marks if mark.queue == queue}
        self._most = most
        self._rows: dict[str | None, list[Row]] = {}
        for row in rows:
            self._rows.setdefault(row[1], []).append(row)
        self._order = ordering(self.settings)
        self._few: dict[int, tuple[list[Row], bool]] = {}
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
            found = [self._see(list(lane)) for _, lane in groupby(rows, key=itemgetter(_HEAD))]
            yield from (head for head in found if head is not None)
            if len(found) < self._most:
                break
            after = [rows[-1][column] for column in (_TURN, _MAJOR, _MINOR, _HEAD)]
            line = (written(self.queue), written(kind), self.entrances.now, self._most)
            rows = self._ask("heads", *line, last_turn, *after)

    def _see(self, rows: list[Row]) -> Candidate | None:
        """A lane's head, unless the lane is empty by now; those behind it are kept for later."""
        first = rows[0]
        if first[2] is None:
            return None
        head = _candidate(first[_FACTS])
        if head.key is not None:
            self.entrances.learn_key(self.queue, head.key, first[_TURN], first[_USED], first[_FLOW])
        self._few[head.id] = rows[1:], len(rows) == first[_FEW]
        return head

    def after(self, head: Candidate) -> Place | None:
        rows, more = self._few[head.id]
        if rows:
            return self._order(_candidate(rows[0][_FACTS]))
        return self._order(head) if more else None

    def behind(self, head: Candidate) -> Iterator[Candidate]:
        rows, more = self._few.pop(head.id)
        last = head
        for row in rows:
            yield (last := _candidate(row[_FACTS]))
        while more:
            page = self._ask("behind", *self._spot(last), self._most)
            more = len(page) == self._most
            for row in page:
                yield (last := _candidate(row))

    def _spot(self, last: Candidate) -> tuple[Any, ...]:
        kind = lane_of(last, self.settings)
        lane = (written(self.queue), written(kind or ""), written(party_of(last.key)))
        return (*lane, last.bucket, self.entrances.now, *last.place)
