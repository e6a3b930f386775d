"""Choosing jobs, inside one transaction.

A queue is walked bucket by bucket, each bucket up to now, so that jobs which are not due are never
looked at. Where limits or turns have to be minded this is done with care (`stoker.store.walk`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import chain, islice
from typing import NamedTuple

from stoker.kernel.admission import Turnstile
from stoker.kernel.queue import Order
from stoker.kernel.turns import Turns
from stoker.store.choosing import choose
from stoker.store.files import statements
from stoker.store.sqlite.books import Books, QueueBook
from stoker.store.sqlite.rows import (
    BARE_COLUMNS,
    COLUMNS,
    DUE_AT,
    FREE_LANE,
    ID,
    KEY,
    NAME,
    RANK,
    WEIGHT,
    Row,
    lane_of,
    order_columns,
)
from stoker.store.sqlite.transaction import Transaction
from stoker.store.walk import LanedLine

SQL = {
    name: text.replace("-- COLUMNS", f"SELECT {COLUMNS}").replace(
        "-- BARE_COLUMNS", f"SELECT {BARE_COLUMNS}"
    )
    for name, text in statements("stoker.store.sqlite.sql", "claim.sql").items()
}
_BEFORE_ALL = -(2**63)
_FEW = 1


class Entrances:
    """The queues of one claim, or of several that ask for the same."""

    def __init__(self, tx: Transaction, books: list[QueueBook], wanted: int) -> None:
        self._tx = tx
        self._books = [book for book in books if book.counts[0] and not book.settings.paused]
        self._wanted = wanted
        self._turnstiles: dict[str, Turnstile] = {}
        self._lines: list[tuple[QueueBook, LanedLine[_Candidate]]] = []
        self._turns: list[tuple[QueueBook, Turns]] = []

    def chosen(self) -> list[Row]:
        """The rows of those that may start, in the order in which they may."""
        if any(book.laned or book.settings.limited for book in self._books):
            return self._with_care()
        lines = [_plain_line(self._tx, book, self._wanted) for book in self._books]
        rows = lines[0] if len(lines) == 1 else merge(*lines, key=_place)
        return list(islice(rows, self._wanted))

    def _with_care(self) -> list[Row]:
        for book in self._books:
            if not self._is_paused(book.settings.within):
                self._open(book)
        chosen = choose([line for _, line in self._lines], self._wanted)
        return [candidate.row for candidate in chosen]

    def _is_paused(self, outer: str | None) -> bool:
        book = None if outer is None else self._tx.books.known(outer)
        return book is not None and book.settings.paused

    def _open(self, book: QueueBook) -> None:
        turns = self._tx.books.turns(book) if book.settings.fair else None
        if turns is not None:
            self._turns.append((book, turns))
        lanes = _Lanes(self._tx, book, self._wanted)
        line = LanedLine(lanes, self._turnstile(book), turns)
        line.open()
        self._lines.append((book, line))

    def _turnstile(self, book: QueueBook) -> Turnstile:
        """A queue's, with that of the queue it is within; one level up and no more."""
        own = self._alone(book)
        within = book.settings.within
        outer = None if within in (None, book.name) else self._tx.books.known(within)
        if outer is not None:
            own.outer = self._alone(outer)
        return own

    def _alone(self, book: QueueBook) -> Turnstile:
        if book.name not in self._turnstiles:
            ledger = _Ledger(self._tx.books, book)
            turnstile = Turnstile(book.name, book.settings, ledger, self._tx.now)
            self._turnstiles[book.name] = turnstile
        return self._turnstiles[book.name]

    def close(self) -> None:
        """Write down what the claim did to turns, rates and lanes."""
        books = self._tx.books
        for book, turns in self._turns:
            books.remember_turns(book, turns)
        books.settle_lanes()
        for book, line in self._lines:
            books.shut_lanes(book, line.full)
        for turnstile in self._turnstiles.values():
            if turnstile.settings.has_rates or turnstile.opens_at is not None:
                books.remember_rates(turnstile)


class _Ledger:
    """What is on the books of one queue."""

    def __init__(self, books: Books, book: QueueBook) -> None:
        self._books = books
        self._book = book
        self._read = False
        self._used: dict[str, int] | None = None

    def used(self, queue: str, meter: str) -> int:
        if not meter:
            return sum({**self._books.members(queue), queue: self._book.used}.values())
        if not self._read:
            self._read, self._used = True, self._books.all_use(self._book)
        return (
            self._books.use(self._book, meter) if self._used is None else self._used.get(meter, 0)
        )

    def flow(self, queue: str, meter: str) -> str:
        return self._books.flow(queue, meter)


class _Candidate(NamedTuple):
    """A job that may be next, and its row."""

    id: int
    rank: int
    due_at: int
    name: str
    key: str | None
    weight: int
    row: Row


def _candidate(row: Row) -> _Candidate:
    return _Candidate(row[ID], row[RANK], row[DUE_AT], row[NAME], row[KEY], row[WEIGHT], row)


def _place(row: Row) -> tuple[int, int, int]:
    return (row[RANK], row[DUE_AT], row[ID])


def _plain_line(tx: Transaction, book: QueueBook, limit: int) -> Iterator[Row]:
    """The due jobs of a queue in which nobody needs care."""
    run = tx.connection.execute
    for bucket in _buckets(tx, "next_bucket", book.id):
        yield from run(SQL["bare_in_bucket"], (book.id, bucket, tx.now, limit))


def _buckets(tx: Transaction, sql: str, queue: int, *lane: str) -> Iterator[int]:
    bucket: int | None = _BEFORE_ALL
    while (bucket := tx.connection.execute(SQL[sql], (queue, bucket, *lane)).get) is not None:
        yield bucket


class _Lanes:
    """One queue's due jobs as `stoker.store.walk` wants to see them."""

    def __init__(self, tx: Transaction, book: QueueBook, limit: int) -> None:
        self._tx = tx
        self._run = tx.connection.execute
        self._book = book
        self._limit = limit
        if book.laned:
            tx.books.wake_lanes(book)

    def laneless(self) -> list[Iterator[_Candidate]]:
        queue = self._book.id
        if self._book.laned == self._book.counts[0]:
            return []
        return self._lines(
            self._rows("due_in_bucket", (queue, bucket, self._tx.now, self._limit))
            for bucket in _buckets(self._tx, "next_bucket", queue)
        )

    def free(self) -> list[Iterator[_Candidate]]:
        if not self._book.laned:
            return []
        queue, now, start = self._book.id, self._tx.now, (_BEFORE_ALL, 0, 0)
        return self._lines(
            self._rows("due_in_lane", (queue, FREE_LANE, bucket, *start, now, self._limit))
            for bucket in _buckets(self._tx, "next_bucket_of_lane", queue, FREE_LANE)
        )

    def heads(self, task: str | None) -> list[Iterator[_Candidate]]:
        if not self._book.laned:
            return []
        queue, kind = self._book.id, "" if task is None else "~" + task
        sql = "heads_by_turn" if self._book.settings.fair else "heads_in_bucket"
        return self._lines(
            self._rows(sql, (queue, kind, bucket, self._tx.now))
            for bucket in _buckets(self._tx, "next_bucket_of_heads", queue, kind)
        )

    def behind(self, head: _Candidate) -> Iterator[_Candidate]:
        settings = self._book.settings
        lane = lane_of(head.name, head.key, head.weight, settings)
        bucket = order_columns(head.rank, settings)[0]
        last, count = head, _FEW
        # A few at a time: a statement that is left open has to be prepared again for others.
        while True:
            second = order_columns(last.rank, settings)[1]
            after = (self._book.id, lane, bucket, last.due_at, second, last.id, self._tx.now)
            rows = self._run(SQL["due_in_lane"], (*after, count)).fetchall()
            yield from map(_candidate, rows)
            if len(rows) < count:
                return
            last, count = _candidate(rows[-1]), 4 * count

    def _rows(self, sql: str, values: Row) -> Iterator[_Candidate]:
        return map(_candidate, self._run(SQL[sql], values))

    def _lines(self, lines: Iterable[Iterator[_Candidate]]) -> list[Iterator[_Candidate]]:
        """One behind the other where that is the queue's order, else side by side."""
        settings = self._book.settings
        if settings.order is Order.RANK_TIME and (settings.ageing or settings.fair):
            return list(lines)
        return [chain.from_iterable(lines)]
