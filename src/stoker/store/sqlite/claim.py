"""Choosing and starting jobs, inside one transaction.

A queue is walked bucket by bucket, each bucket up to now, so that jobs which are not due are never
looked at. Jobs with a key stand in lanes, of which only the heads are looked at, so that a key
without room costs nothing, however many jobs it has. What does not fit stays; `Turnstile` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from heapq import heappop, heappush, merge
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

import msgspec

from stoker.kernel import rules
from stoker.kernel.admission import Admission, Turnstile
from stoker.kernel.job import FORMATS, RUNNING, Job
from stoker.kernel.policy import Policy
from stoker.kernel.queue import Order
from stoker.store import Claim
from stoker.store.files import statements
from stoker.store.sqlite.books import QueueBook
from stoker.store.sqlite.rows import (
    ATTEMPT,
    BARE_COLUMNS,
    COLUMNS,
    DUE_AT,
    FREE_LANE,
    ID,
    KEY,
    POLICY,
    PROGRESS,
    RANK,
    REVISION,
    SESSION,
    STARTED_AT,
    STATE,
    TOKEN,
    UNTIL,
    WEIGHT,
    Row,
    lane_of,
    order_columns,
)
from stoker.store.sqlite.transaction import Transaction

_SQL = {
    name: text.replace("-- COLUMNS", f"SELECT {COLUMNS}").replace(
        "-- BARE_COLUMNS", f"SELECT {BARE_COLUMNS}"
    )
    for name, text in statements("stoker.store.sqlite.sql", "claim.sql").items()
}
_BEFORE_ALL = -(2**63)


def serve_all(tx: Transaction, requests: Sequence[Claim]) -> list[list[Job] | None]:
    """Start the foremost due jobs for each claim; None if its session is not alive.

    Claims on the same queues, one behind the other, share a walk.
    """
    runs = [list(run) for _, run in groupby(requests, key=attrgetter("queues"))]
    return [grant for run in runs for grant in _serve_run(tx, run)]


def _serve_run(tx: Transaction, requests: list[Claim]) -> Iterator[list[Job] | None]:
    alive = [_alive(tx, request.session) for request in requests]
    wanted = sum(request.limit for request, lives in zip(requests, alive, strict=True) if lives)
    books = [tx.books.known(name) for name in dict.fromkeys(requests[0].queues)]
    walks = [_Walk(tx, book, wanted) for book in books if book is not None]
    lines = [iter(walk) for walk in walks]
    rows = lines[0] if len(lines) == 1 else merge(*lines, key=_place)
    chosen = iter(list(islice(rows, wanted)))
    for request, lives in zip(requests, alive, strict=True):
        yield _started(tx, request, islice(chosen, request.limit)) if lives else None
    tx.books.settle_lanes()
    for walk in walks:
        walk.shut_lanes()


def _started(tx: Transaction, request: Claim, rows: Iterable[Row]) -> list[Job]:
    starter = _Starter(tx, request)
    started = [starter.start(row) for row in rows]
    if started:
        _start(tx, request, started)
    return started


def _alive(tx: Transaction, session: int | None) -> bool:
    if session is None:
        return True
    return tx.connection.execute(_SQL["alive"], (session, tx.now)).get is not None


def _place(row: Row) -> tuple[int, int, int]:
    return (row[RANK], row[DUE_AT], row[ID])


def _time_place(row: Row) -> tuple[int, int, int]:
    return (row[DUE_AT], row[RANK], row[ID])


class _Starter:
    """`rules.start` on rows: the same facts, set without making the queued job first.

    What the rule says of the lease depends on the policy alone, and is asked once for each; a
    job started so, without anything else, also tells what a bare one is like afterwards.
    """

    def __init__(self, tx: Transaction, request: Claim) -> None:
        self._tx = tx
        self._request = request
        self._samples: dict[Policy, Job] = {}
        self._bare: dict[tuple[int, int | str | None], tuple[str, Policy, Row]] = {}

    def start(self, row: Row) -> Job:
        if len(row) == _BARE:
            if row[-1]:
                return self._start_bare(row)
            row = self._tx.connection.execute(_SQL["job"], (row[ID],)).get
        facts = self._tx.read_job.facts(row)
        sample = self._sample(facts[POLICY])
        facts[STATE] = RUNNING
        facts[TOKEN] = sample.token
        facts[SESSION] = sample.session
        facts[UNTIL] = sample.until
        facts[STARTED_AT] = sample.started_at
        facts[ATTEMPT] += 1
        facts[REVISION] += 1
        facts[PROGRESS] = 0.0
        return Job(*facts)

    def _start_bare(self, row: Row) -> Job:
        queue, name, payload, form, job_id, _, rank, due_at, stored, created, scheduled, _ = row
        common = self._bare.get((queue, stored))
        if common is None:
            common = self._bare[queue, stored] = self._in_common(queue, stored)
        queue_name, policy, rest = common
        form = FORMATS[form]
        first = (queue_name, name, payload, form, job_id, RUNNING, rank, due_at, policy, created)
        return Job(*first, scheduled, *rest)

    def _in_common(self, queue: int, stored: int | str | None) -> tuple[str, Policy, Row]:
        reader = self._tx.read_job
        policy = reader.policy(stored)
        started = msgspec.structs.astuple(self._sample(policy))
        return reader.queue_name(queue), policy, started[WEIGHT:]

    def _sample(self, policy: Policy) -> Job:
        sample = self._samples.get(policy)
        if sample is None:
            asked = self._request
            sample = self._samples[policy] = rules.start(
                Job("", policy=policy),
                now=self._tx.now,
                token=asked.token,
                session=asked.session,
                visibility=asked.visibility,
            )
        return sample


_BARE = WEIGHT + 1


def _start(tx: Transaction, request: Claim, started: list[Job]) -> None:
    for (session, until), run in groupby(started, key=attrgetter("session", "until")):
        ids = msgspec.json.encode([job.id for job in run]).decode()
        tx.connection.execute(_SQL["start"], (request.token, session, until, tx.now, ids))
    for _, run in groupby(started, key=attrgetter("queue", "key", "weight", "rank")):
        alike = list(run)
        tx.books.start(alike[0], len(alike))


class _Source(Enum):
    """Where the foremost jobs of a queue come from."""

    LANELESS = 0
    FREE = 1
    LANE_HEADS = 2
    LANE = 3


class _Head(NamedTuple):
    """The foremost job of one source, and those behind it."""

    place: tuple[int, int, int]
    row: Row
    source: _Source
    behind: Iterator[Row]


class _Walk:
    """One queue's due jobs in its order, as far as capacity lets them in."""

    def __init__(self, tx: Transaction, book: QueueBook, limit: int) -> None:
        self._tx = tx
        self._run = tx.connection.execute
        self._book = book
        self._limit = limit
        self._full_lanes: list[tuple[str, int]] = []
        self._order: Callable[[Row], tuple[int, int, int]] = _place
        if book.settings.order is Order.TIME_RANK:
            self._order = _time_place

    def __iter__(self) -> Iterator[Row]:
        book = self._book
        if book.settings.paused or not book.counts[0]:
            return iter(())
        if not book.laned and not book.settings.limited:
            return self._laneless("bare_in_bucket")
        return self._admitted()

    def shut_lanes(self) -> None:
        """Remember which lanes had no room, after the heads of those taken from are settled."""
        for lane, bucket in self._full_lanes:
            self._tx.books.shut_lane(self._book, lane, bucket)

    def _admitted(self) -> Iterator[Row]:
        book = self._book
        turnstile = Turnstile(
            book.settings, book.used, lambda key: self._tx.books.key_used(book, key)
        )
        heads: list[_Head] = []
        self._queue_up(heads, _Source.LANELESS, self._laneless("due_in_bucket"))
        if book.laned:
            self._queue_up(heads, _Source.FREE, self._free())
            self._queue_up(heads, _Source.LANE_HEADS, self._lane_heads())
        while heads:
            head = heappop(heads)
            admission = turnstile.ask(head.row[KEY], head.row[WEIGHT])
            if admission is Admission.QUEUE_FULL:
                heads = [other for other in heads if other.source is _Source.FREE]
                continue  # at most one is left, so it is still a heap
            if admission is Admission.KEY_FULL:
                self._full_lanes.append(self._lane(head.row))
            else:
                yield head.row
                if head.source is _Source.LANE_HEADS:
                    self._queue_up(heads, _Source.LANE, self._behind(head.row))
            if admission is Admission.ENTER or head.source is not _Source.LANE:
                self._queue_up(heads, head.source, head.behind)

    def _queue_up(self, heads: list[_Head], source: _Source, line: Iterator[Row]) -> None:
        row = next(line, None)
        if row is not None:
            heappush(heads, _Head(self._order(row), row, source, line))

    def _lane(self, row: Row) -> tuple[str, int]:
        lane = lane_of(row[KEY], row[WEIGHT])
        assert lane is not None
        return lane, order_columns(row[RANK], self._book.settings)[0]

    # -- lines, each in the queue's order --------------------------------------------------

    def _laneless(self, sql: str) -> Iterator[Row]:
        queue, now = self._book.id, self._tx.now
        for bucket in self._buckets("next_bucket", queue):
            yield from self._run(_SQL[sql], (queue, bucket, now, self._limit))

    def _free(self) -> Iterator[Row]:
        queue, now = self._book.id, self._tx.now
        for bucket in self._buckets("next_bucket_of_lane", queue, FREE_LANE):
            start = (_BEFORE_ALL, 0, 0)
            yield from self._run(_SQL["due_in_lane"], (queue, FREE_LANE, bucket, *start, now))

    def _lane_heads(self) -> Iterator[Row]:
        queue, now = self._book.id, self._tx.now
        for bucket in self._buckets("next_bucket_of_heads", queue):
            for (job,) in self._run(_SQL["heads_in_bucket"], (queue, bucket, now)):
                row = self._run(_SQL["job"], (job,)).get
                if row[WEIGHT]:
                    yield row

    def _behind(self, row: Row) -> Iterator[Row]:
        lane, bucket = self._lane(row)
        second = order_columns(row[RANK], self._book.settings)[1]
        spot = (self._book.id, lane, bucket, row[DUE_AT], second, row[ID], self._tx.now)
        yield from self._run(_SQL["due_in_lane"], spot)

    def _buckets(self, sql: str, queue: int, *lane: str) -> Iterable[int]:
        bucket: int | None = _BEFORE_ALL
        while (bucket := self._run(_SQL[sql], (queue, bucket, *lane)).get) is not None:
            yield bucket
