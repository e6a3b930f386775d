"""One queue's due jobs as a claim sees them: bucket by bucket, in lanes and beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, starmap
from typing import NamedTuple

from stoker.kernel.queue import Order
from stoker.kernel.turns import Party
from stoker.store.choosing import ordering
from stoker.store.files import statements
from stoker.store.sqlite.queue_book import QueueBook
from stoker.store.sqlite.rows import (
    BARE_COLUMNS,
    COLUMNS,
    FREE_LANE,
    Candidate,
    Row,
    lane_of,
    order_columns,
)
from stoker.store.sqlite.transaction import Transaction
from stoker.store.walk import LanedLine, Place

SQL = {
    name: text.replace("-- COLUMNS", f"SELECT {COLUMNS}").replace(
        "-- BARE_COLUMNS", f"SELECT {BARE_COLUMNS}"
    )
    for name, text in statements("stoker.store.sqlite.sql", "claim.sql").items()
}
_BEFORE_ALL = -(2**63)
_FEW = 1


def buckets(tx: Transaction, sql: str, queue: int, *lane: str) -> Iterator[int]:
    """The buckets of a queue in which somebody stands: one index probe each."""
    bucket: int | None = _BEFORE_ALL
    while (bucket := tx.connection.execute(SQL[sql], (queue, bucket, *lane)).get) is not None:
        yield bucket


class _Follower(NamedTuple):
    """As much of the one behind a head as decides on its place."""

    id: int
    rank: int
    due_at: int


class LaneView:
    """One queue's due jobs as `stoker.store.walk` wants to see them."""

    def __init__(self, tx: Transaction, book: QueueBook, limit: int) -> None:
        self._tx = tx
        self._run = tx.connection.execute
        self._limit = limit
        self.book = book
        self._order = ordering(book.settings)
        self._reached: dict[Party, int] = {}
        if book.laned:
            tx.books.lanes.wake(book)

    def laneless(self) -> list[Iterator[Candidate]]:
        queue = self.book.id
        if self.book.laned == self.book.counts[0]:
            return []
        return self._lines(
            self._rows("due_in_bucket", (queue, bucket, self._tx.now, self._limit))
            for bucket in buckets(self._tx, "next_bucket", queue)
        )

    def free(self) -> list[Iterator[Candidate]]:
        if not self.book.laned:
            return []
        queue, now, start = self.book.id, self._tx.now, (_BEFORE_ALL, 0, 0)
        return self._lines(
            self._rows("due_in_lane", (queue, FREE_LANE, bucket, *start, now, self._limit))
            for bucket in buckets(self._tx, "next_bucket_of_lane", queue, FREE_LANE)
        )

    def heads(self, task: str | None) -> list[Iterator[Candidate]]:
        if not self.book.laned:
            return []
        kind = "" if task is None else "~" + task
        found = buckets(self._tx, "next_bucket_of_heads", self.book.id, kind)
        return self._lines(self._heads(kind, bucket) for bucket in found)

    def _heads(self, kind: str, bucket: int) -> Iterator[Candidate]:
        for head in map(Candidate._make, self.heads_in(kind, bucket)):
            self._reached[head.key] = head.turn
            yield head

    def heads_in(self, kind: str, bucket: int) -> Iterator[Row]:
        """Rows of Candidates: the foremost of all open lanes of a kind, in one bucket."""
        if self.book.settings.fair:
            self._tx.books.lanes.level(self.book, kind, bucket)
        return iter(self._tx.rows(SQL["heads"], (self.book.id, kind, bucket, self._tx.now)))

    def reached(self, party: Party) -> int:
        """How far a party has been served."""
        known = self._reached.get(party)
        return self._tx.books.lanes.served(self.book, party) if known is None else known

    def after(self, head: Candidate) -> Place | None:
        if head.next_id is None or head.next_due > self._tx.now:
            return None
        return self._order(_Follower(head.next_id, head.next_rank, head.next_due))

    def behind(self, head: Candidate) -> Iterator[Candidate]:
        settings = self.book.settings
        lane = lane_of(head.name, head.key, head.weight, settings)
        bucket = order_columns(head.rank, settings)[0]
        last, count = head, _FEW
        # A few at a time: a statement that is left open has to be prepared again for others.
        while True:
            second = order_columns(last.rank, settings)[1]
            after = (self.book.id, lane, bucket, last.due_at, second, last.id, self._tx.now)
            rows = self._run(SQL["due_in_lane"], (*after, count)).fetchall()
            for last in starmap(Candidate, rows):
                yield last
            if len(rows) < count:
                return
            count *= 4

    def _rows(self, sql: str, values: Row) -> Iterator[Candidate]:
        return starmap(Candidate, self._tx.rows(SQL[sql], values))

    def _lines(self, lines: Iterable[Iterator[Candidate]]) -> list[Iterator[Candidate]]:
        """One behind the other where that is the queue's order, else side by side."""
        settings = self.book.settings
        if settings.order is Order.RANK_TIME and (settings.ageing or settings.fair):
            return list(lines)
        return [chain.from_iterable(lines)]

    def close(self, chosen: Sequence[Candidate], line: LanedLine[Candidate]) -> None:
        """Write down what became of the lanes."""
        lanes = self._tx.books.lanes
        if line.turns is not None:
            lanes.remember(self.book, dict(line.turns.moved()), line.turns.clock)
        lanes.taken(self.book, chosen, line.turns)
        lanes.settle()
        lanes.shut(self.book, line.full)
