"""Choosing jobs, inside one transaction.

A queue is walked bucket by bucket, each bucket up to now, so that jobs which are not due are never
looked at. Where limits or turns have to be minded this is done with care (`stoker.store.walk`), or,
where those of keys are all that counts, by `seats`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice

from stoker.kernel.turns import Turns
from stoker.store.choosing import AnyLine, Line, choose
from stoker.store.sqlite.books import Books
from stoker.store.sqlite.lane_view import SQL, LaneView, buckets
from stoker.store.sqlite.queue_book import QueueBook
from stoker.store.sqlite.rows import Candidate, Row
from stoker.store.sqlite.seats import Seats, seats_in
from stoker.store.sqlite.transaction import Transaction
from stoker.store.turnstiles import Turnstiles
from stoker.store.walk import LanedLine


class Entrances:
    """The queues of one claim, or of several that ask for the same."""

    def __init__(self, tx: Transaction, books: list[QueueBook], wanted: int) -> None:
        self._tx = tx
        self._books = [book for book in books if book.counts[0] and not book.settings.paused]
        self._wanted = wanted
        self._turnstiles = Turnstiles(tx.books.settings, _Ledger(tx.books), tx.now)
        self._lines: list[AnyLine[Candidate]] = []
        self._walks: list[tuple[LaneView, LanedLine[Candidate]]] = []
        self._chosen: list[Candidate] = []
        self._seats: Seats | None = None

    def chosen(self) -> Sequence[Row]:
        """The rows of those that may start, in the order in which they may."""
        if any(book.laned or book.settings.limited for book in self._books):
            self._seats = seats_in(self._tx, self._books, self._wanted)
            return self._with_care() if self._seats is None else self._seats.chosen()
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
        lanes, settings = LaneView(self._tx, book, self._wanted), book.settings
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
        if self._seats is not None:
            self._seats.close()
        for lanes, line in self._walks:
            lanes.close([each for each in self._chosen if each.queue == lanes.book.id], line)
        for turnstile in self._turnstiles:
            if turnstile.settings.has_rates or turnstile.opens_at is not None:
                books.meters.remember_rates(books.queue(turnstile.name).id, turnstile)


class _Ledger:
    """What is on the books of the queues."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def used(self, queue: str, meter: str) -> int:
        book = self._books.known(queue)
        assert book is not None, "a queue that nobody knows has no limits"
        if not meter:
            return sum({**self._books.members(queue), queue: book.used}.values())
        return self._books.meters.reading(book.id)(meter) or 0

    def flow(self, queue: str, meter: str) -> str:
        return self._books.meters.flow(queue, meter)


def _place(row: Row) -> tuple[int, int, int]:
    job_id, rank, due_at, *_ = row
    return (rank, due_at, job_id)


def _plain_line(tx: Transaction, book: QueueBook, limit: int) -> Iterator[Row]:
    """The due jobs of a queue in which nobody needs care."""
    for bucket in buckets(tx, "next_bucket", book.id):
        yield from tx.rows(SQL["due_in_bucket"], (book.id, bucket, tx.now, limit))
