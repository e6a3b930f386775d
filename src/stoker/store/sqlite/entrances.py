"""Choosing jobs, inside one transaction.

A queue is walked bucket by bucket, each bucket up to now, so that jobs which are not due are never
looked at. Where limits or turns have to be minded this is done with care (`stoker.store.walk`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, islice, starmap
from typing import NamedTuple, cast

from stoker.kernel.queue import Order
from stoker.kernel.turns import Party, Turns
from stoker.store.choosing import AnyLine, Line, choose, ordering
from stoker.store.files import statements
from stoker.store.sqlite.books import Books
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
from stoker.store.turnstiles import Turnstiles
from stoker.store.walk import LanedLine, Place

SQL = {
    name: text.replace("-- COLUMNS", f"SELECT {COLUMNS}").replace(
        "-- BARE_COLUMNS", f"SELECT {BARE_COLUMNS}"
    )
    for name, text in statements("stoker.store.sqlite.sql", "claim.sql").items()
}
_BEFORE_ALL = -(2**63)
_FEW = 1
_MANY = 10
"""Meters that are worth reading for one job."""


class Entrances:
    """The queues of one claim, or of several that ask for the same."""

    def __init__(self, tx: Transaction, books: list[QueueBook], wanted: int) -> None:
        self._tx = tx
        self._books = [book for book in books if book.counts[0] and not book.settings.paused]
        self._wanted = wanted
        self._turnstiles = Turnstiles(tx.books.settings, _Ledger(tx.books, wanted), tx.now)
        self._lines: list[AnyLine[Candidate]] = []
        self._walks: list[tuple[_Lanes, LanedLine[Candidate]]] = []
        self._chosen: list[Candidate] = []

    def chosen(self) -> Sequence[Row]:
        """The rows of those that may start, in the order in which they may."""
        if any(book.laned or book.settings.limited for book in self._books):
            return self._with_care()
        lines = [_plain_line(self._tx, book, self._wanted) for book in self._books]
        rows = lines[0] if len(lines) == 1 else merge(*lines, key=_place)
        return list(islice(rows, self._wanted))

    def _with_care(self) -> list[Candidate]:
        for book in self._books:
            within = book.settings.within
            if within is None or not self._tx.books.settings(within).paused:
                self._open(book)
        self._chosen = choose(self._lines, self._wanted)
        return self._chosen

    def _open(self, book: QueueBook) -> None:
        lanes, settings = _Lanes(self._tx, book, self._wanted), book.settings
        turnstile = self._turnstiles.of(book.name)
        if not book.laned and not settings.fair and not settings.ageing:
            (jobs,) = lanes.laneless()
            self._lines.append(Line(jobs, turnstile))
            return
        turns = Turns(settings, book.clock, lanes.reached) if settings.fair else None
        line = LanedLine(lanes, turnstile, turns)
        line.open()
        self._lines.append(line)
        self._walks.append((lanes, line))

    def close(self) -> None:
        """Write down what the claim did to turns, rates and lanes."""
        books = self._tx.books
        for lanes, line in self._walks:
            lanes.close([each for each in self._chosen if each.queue == lanes.book.id], line)
        for turnstile in self._turnstiles:
            if turnstile.settings.has_rates or turnstile.opens_at is not None:
                books.meters.remember_rates(books.queue(turnstile.name).id, turnstile)


class _Follower(NamedTuple):
    """As much of the one behind a head as decides on its place."""

    id: int
    rank: int
    due_at: int


class _Ledger:
    """What is on the books of the queues."""

    def __init__(self, books: Books, wanted: int) -> None:
        self._books = books
        self._many = _MANY * wanted

    def used(self, queue: str, meter: str) -> int:
        book = self._books.known(queue)
        assert book is not None, "a queue that nobody knows has no limits"
        if not meter:
            return sum({**self._books.members(queue), queue: book.used}.values())
        meters = self._books.meters
        meters.read_all(book.id, self._many)
        return meters.used(book.id, meter)

    def flow(self, queue: str, meter: str) -> str:
        return self._books.meters.flow(queue, meter)


def _place(row: Row) -> tuple[int, int, int]:
    job_id, rank, due_at, *_ = row
    return (rank, due_at, job_id)


def _plain_line(tx: Transaction, book: QueueBook, limit: int) -> Iterator[Row]:
    """The due jobs of a queue in which nobody needs care."""
    for bucket in _buckets(tx, "next_bucket", book.id):
        yield from tx.rows(SQL["due_in_bucket"], (book.id, bucket, tx.now, limit))


def _buckets(tx: Transaction, sql: str, queue: int, *lane: str) -> Iterator[int]:
    bucket: int | None = _BEFORE_ALL
    while (bucket := tx.connection.execute(SQL[sql], (queue, bucket, *lane)).get) is not None:
        yield bucket


class _Lanes:
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
            for bucket in _buckets(self._tx, "next_bucket", queue)
        )

    def free(self) -> list[Iterator[Candidate]]:
        if not self.book.laned:
            return []
        queue, now, start = self.book.id, self._tx.now, (_BEFORE_ALL, 0, 0)
        return self._lines(
            self._rows("due_in_lane", (queue, FREE_LANE, bucket, *start, now, self._limit))
            for bucket in _buckets(self._tx, "next_bucket_of_lane", queue, FREE_LANE)
        )

    def heads(self, task: str | None) -> list[Iterator[Candidate]]:
        if not self.book.laned:
            return []
        kind = "" if task is None else "~" + task
        buckets = _buckets(self._tx, "next_bucket_of_heads", self.book.id, kind)
        return self._lines(self._heads(kind, bucket) for bucket in buckets)

    def _heads(self, kind: str, bucket: int) -> Iterator[Candidate]:
        if self.book.settings.fair:
            self._tx.books.lanes.level(self.book, kind, bucket)
        heads = self._tx.rows(SQL["heads"], (self.book.id, kind, bucket, self._tx.now))
        for head in map(Candidate._make, heads):
            self._reached[head.key] = cast("int", head.turn)
            yield head

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
            lanes.remember(self.book, line.turns)
        lanes.taken(self.book, chosen, line.turns)
        lanes.settle()
        lanes.shut(self.book, line.full)
