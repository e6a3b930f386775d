"""Choosing from a queue in which nothing but the places and the turns of its keys decides.

Who is chosen is said in `stoker.store.walk`; this says the same of the common case, in which every
job stands in the lane of its key, and spends little on each: heads are taken by the round, as long
as nobody behind them comes before, and the lane behind one is looked at only when its turn has come
again.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice

from stoker.kernel.admission import of_key
from stoker.kernel.queue import Order, QueueSettings
from stoker.kernel.turns import Party
from stoker.store.sqlite.lane_view import LaneView, buckets
from stoker.store.sqlite.queue_book import QueueBook
from stoker.store.sqlite.rows import FREE_LANE, Candidate, Row
from stoker.store.sqlite.rows import KEY_OF_CANDIDATE as _KEY
from stoker.store.sqlite.transaction import Transaction

# Rows are used as they are read: to make a Candidate of each takes as long as to choose it.
_ID, _RANK, _DUE_AT = map(Candidate._fields.index, ("id", "rank", "due_at"))
_WEIGHT, _HEAD, _TURN = map(Candidate._fields.index, ("weight", "head", "turn"))
_FOREMOST = slice(_ID, _DUE_AT + 1)
_NEXT = slice(Candidate._fields.index("next_id"), None)
_NEXT_ID, _NEXT_DUE = map(Candidate._fields.index, ("next_id", "next_due"))

_ENDLESS = 2**63
_NOWHERE = (_ENDLESS, 0, 0, 0)

_Waiting = tuple[int, int, int, int, Row, Iterator[Row] | None]
"""One behind a head: its turn, due time, second and id, its row, and those behind it in turn. If it
has not been read the row is that of the head, and None comes last."""


def seats_in(tx: Transaction, books: list[QueueBook], wanted: int) -> Seats | None:
    """The seats of the queue that is asked for, if it is one, and of this kind."""
    if len(books) != 1 or not _is_left_to_keys(books[0].settings):
        return None
    (book,) = books
    if not book.laned or book.laned != book.counts[0]:
        return None
    view = LaneView(tx, book, wanted)
    found = list(islice(buckets(tx, "next_bucket_of_heads", book.id, ""), 2))
    free = next(buckets(tx, "next_bucket_of_lane", book.id, FREE_LANE), None)
    return Seats(tx, view, found[0], wanted) if len(found) == 1 and free is None else None


def _is_left_to_keys(settings: QueueSettings) -> bool:
    others = settings.capacity or settings.tasks or settings.has_rates or settings.ageing
    return not others and settings.within is None


class Seats:
    """The lanes of one queue during one claim; all their heads stand in one bucket."""

    def __init__(self, tx: Transaction, view: LaneView, bucket: int, wanted: int) -> None:
        self._tx = tx
        self._view = view
        self._book = view.book
        self._bucket = bucket
        self._wanted = wanted
        settings = self._book.settings
        self._by_time = settings.order is Order.TIME_RANK
        self._limits_keys, self._fair = settings.limits_keys, settings.fair
        self._capacity, self._turn_length = settings.key_units, settings.turn_length
        self._waiting: list[_Waiting] = []
        self._chosen: list[Row] = []
        self._used = tx.books.meters.reading(self._book.id)
        self._left: dict[str, int] = {}
        """The room that keys have which were asked for some."""
        self._reached: dict[Party, int] = {}
        self._clock = self._book.clock
        self._searched: set[str] = set()
        """Keys whose lanes were looked at behind the head."""
        self._full: list[Row] = []
        """The last ones of keys without room: those that found none, or took it."""

    def chosen(self) -> list[Row]:
        """The rows of those that may start, in the order in which they may."""
        heads = self._view.heads_in("", self._bucket)
        while round_ := list(islice(heads, self._wanted - len(self._chosen))):
            if self._is_overtaken(round_):
                self._mix(round_)
            else:
                self._take(round_)
        self._offer_to_those_before((_ENDLESS,))
        return self._chosen

    def _is_overtaken(self, heads: list[Row]) -> bool:
        """Does anybody who waits behind a head come before the last of these, or perhaps?"""
        last, behind = self._place(heads[-1]), self._place_behind
        if self._waiting and self._waiting[0] < last:
            return True
        turn, due_at, _, job_id = last
        length, at_most = self._turn_length, (due_at, _ENDLESS if self._by_time else job_id)
        if self._fair:
            near = [h for h in heads if h[_TURN] + length(h[_KEY], h[_WEIGHT]) <= turn]
        else:
            near = [h for h in heads if (h[_NEXT_DUE] or _ENDLESS, h[_NEXT_ID]) < at_most]
        return any(behind(head) < last for head in near)

    def _take(self, heads: list[Row]) -> None:
        """All of them, where keys have room. Who is behind them matters only if more are wanted."""
        roomy = self._admit(heads)
        if len(self._chosen) < self._wanted:
            for head in roomy:
                self._look_behind(head, None)

    def _mix(self, heads: list[Row]) -> None:
        for head in heads:
            self._offer_to_those_before(self._place(head))
            if len(self._chosen) == self._wanted:
                break
            self._offer(head[_TURN], head, None)

    def _place(self, head: Row) -> tuple[int, int, int, int]:
        second = head[_RANK] if self._by_time else 0
        return (head[_TURN], head[_DUE_AT], second, head[_ID])

    def _place_behind(self, head: Row) -> tuple[int, int, int, int]:
        """Where the one behind a head stands when that is taken; behind all if nobody is due."""
        job_id, rank, due_at = head[_NEXT]
        if job_id is None or due_at > self._tx.now:
            return _NOWHERE
        turn = head[_TURN] + self._turn_length(head[_KEY], head[_WEIGHT]) if self._fair else 0
        return (turn, due_at, rank if self._by_time else 0, job_id)

    def _offer_to_those_before(self, place: tuple[int, ...]) -> None:
        waiting = self._waiting
        while len(self._chosen) < self._wanted and waiting and waiting[0] < place:
            turn, _, _, _, row, rest = heappop(waiting)
            if rest is None:
                self._searched.add(row[_KEY])
                rest = self._view.behind(Candidate._make(row))
                row = next(rest)
            self._offer(turn, row, rest)

    def _offer(self, turn: int, row: Row, rest: Iterator[Row] | None) -> None:
        """A seat for the foremost of all, if its key has room. Who is behind it may be next."""
        if self._admit([row], turn):
            self._look_behind(row, rest)

    def _admit(self, rows: list[Row], turn: int | None = None) -> list[Row]:
        """Seats for those of these whose keys have room, at this turn, or at that of each. The
        ones whose keys have more."""
        seated, roomy = self._with_room(rows) if self._limits_keys else (rows, rows)
        self._chosen += seated
        if self._fair:
            for row in seated:
                self._clock = row[_TURN] if turn is None else turn
                key = row[_KEY]
                self._reached[key] = self._clock + self._turn_length(key, row[_WEIGHT])
        return roomy

    def _with_room(self, rows: list[Row]) -> tuple[list[Row], list[Row]]:
        """Those whose keys have room for them, and those of them whose keys have more."""
        seated, roomy, full, rooms = [], [], self._full, self._left
        for row in rows:
            key, weight = row[_KEY], row[_WEIGHT]
            if key in rooms:
                room = rooms[key]
            elif (capacity := self._capacity(key)) is None:
                room = _ENDLESS
            elif used := self._used(of_key(key)):
                room = capacity - used
            else:
                room = max(capacity, weight)  # the heaviest runs alone
            if room >= weight:
                seated.append(row)
                rooms[key] = room - weight
            if room > weight:
                roomy.append(row)
            else:
                full.append(row)
        return seated, roomy

    def _look_behind(self, row: Row, rest: Iterator[Row] | None) -> None:
        """Of a head it is known who is behind; elsewhere those who are due come one by one."""
        if rest is None:
            place = self._place_behind(row)
            if place is not _NOWHERE:
                heappush(self._waiting, (*place, row, None))
            return
        turn = self._reached.get(row[_KEY], 0)
        for job in islice(rest, 1):
            job_id, rank, due_at = job[_FOREMOST]
            second = rank if self._by_time else 0
            heappush(self._waiting, (turn, due_at, second, job_id, job, rest))

    def close(self) -> None:
        """Write down what became of turns and lanes."""
        book, lanes = self._book, self._tx.books.lanes
        book.laned -= len(self._chosen)
        told = lanes.advance(book, self._heads_alone(), self._reached)
        if self._fair:
            others = {key: turn for key, turn in self._reached.items() if key not in told}
            lanes.remember(book, others, self._clock)
            if lanes.any_shut(book):  # maybe with heads in other buckets
                lanes.write_turns(book, self._reached)
        lanes.settle()
        lanes.shut(book, [(Candidate._make(row), None) for row in self._full])

    def _heads_alone(self) -> list[Row]:
        """Heads of which nobody else of the same lane was chosen. The others' lanes are lost."""
        if not self._searched:
            return self._chosen
        alone: list[Row] = []
        for row in self._chosen:
            if row[_KEY] not in self._searched:
                alone.append(row)
            elif row[_HEAD] is not None:
                self._tx.books.lanes.lose(self._book, row)
        return alone
