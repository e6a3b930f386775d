"""The books of one transaction: what it does to counters, meters and lanes.

Every job that moves is entered here; at the end each touched queue, meter and lane is written
once. Nothing else writes those tables, so counts cost one statement a queue, however many jobs
moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from stoker.kernel.admission import of_key, of_task
from stoker.kernel.job import REPLY_PREFIX, Job, State
from stoker.kernel.queue import DEFAULTS, Order, QueueSettings
from stoker.store.files import statements
from stoker.store.sqlite.lanes import Lanes
from stoker.store.sqlite.library import Connection
from stoker.store.sqlite.meters import Meters
from stoker.store.sqlite.queue_book import QueueBook, SettingsReader
from stoker.store.walk import limited_tasks

_SQL = statements("stoker.store.sqlite.sql", "books.sql")
_ENCODER = msgspec.json.Encoder()
_RUNNING = int(State.RUNNING)
_QUEUED = int(State.QUEUED)
_WAITING = int(State.WAITING)


class Books:
    """All pages touched by one write transaction."""

    def __init__(self, connection: Connection, read_settings: SettingsReader, now: int) -> None:
        self._connection = connection
        self._read_settings = read_settings
        self.lanes = Lanes(connection, now)
        self.meters = Meters(connection)
        self._by_name: dict[str, QueueBook] = {}
        self._eased: set[str] = set()

    @property
    def eased(self) -> set[str]:
        """Limited queues in which room was made."""
        names = set(self._eased)
        for name in self._eased:
            outer = self._by_name[name].settings.within
            names |= {outer} if outer is not None else set()
        return names.union(*(self.members(name) for name in names))

    def queue(self, name: str) -> QueueBook:
        """The page of a queue, which comes into being if it is new."""
        book = self._by_name.get(name) or self.known(name)
        if book is None:
            book = self._open(self._connection.execute(_SQL["add_queue"], (name,)).get)
        return book

    def known(self, name: str) -> QueueBook | None:
        """The page of a queue, if there is such a queue."""
        if name not in self._by_name:
            row = self._connection.execute(_SQL["queue_by_name"], (name,)).get
            return None if row is None else self._open(row)
        return self._by_name[name]

    def settings(self, name: str) -> QueueSettings:
        """The settings of a queue, whether there is such a queue or not."""
        book = self.known(name)
        return DEFAULTS if book is None else book.settings

    def _open(self, row: tuple[Any, ...]) -> QueueBook:
        book = self._by_name[row[1]] = QueueBook(row, self._read_settings(row[2]))
        return book

    # -- entries ---------------------------------------------------------------------------

    def enter(self, job: Job, sign: int = 1) -> None:
        """A job arrives in a state (+1) or leaves it (-1)."""
        book = self.queue(job.queue)
        state = job.state
        book.counts[state] += sign
        book.changed = True
        if state == _RUNNING or (state == _WAITING and _awaits_reply(job)):
            self._burden(book, [job], [sign * job.weight])
        elif state == _QUEUED:
            self.lanes.moved(book, job, sign)

    def start(self, jobs: Sequence[Job]) -> None:
        """Queued jobs of one queue were started. Their lanes hear of it from those who chose."""
        book = self._by_name[jobs[0].queue]
        self._count(book, _QUEUED, _RUNNING, len(jobs))
        self._burden(book, jobs, [job.weight for job in jobs])

    def add_queued(self, book: QueueBook, count: int) -> None:
        """So many new jobs were queued. Their lanes, if they have any, are told apart."""
        book.counts[_QUEUED] += count
        book.changed = True

    def move(self, jobs: Sequence[Job], target: int, units: int) -> None:
        """Jobs of one queue and state moved alike, and not into a lane; each of them takes so many
        units, or gives them back."""
        first = jobs[0]
        book = self.queue(first.queue)
        self._count(book, first.state, target, len(jobs))
        if first.state == _QUEUED:
            for job in jobs:
                self.lanes.moved(book, job, -1)
        if units:
            self._burden(book, jobs, [units] * len(jobs))

    def _count(self, book: QueueBook, before: int, after: int, jobs: int) -> None:
        book.counts[before] -= jobs
        book.counts[after] += jobs
        book.changed = True

    def _burden(self, book: QueueBook, jobs: Sequence[Job], units: Sequence[int]) -> None:
        """Jobs take units, each of them so many, or give them back."""
        book.used += sum(units)
        settings = book.settings
        if not settings.limited:
            return
        if settings.limits_keys:
            keys = [None if job.key is None else of_key(job.key) for job in jobs]
            self.meters.move(book.id, keys, units)
        if settings.tasks or settings.task_rates:
            tasks = [of_task(job.name) if settings.limits_task(job.name) else None for job in jobs]
            self.meters.move(book.id, tasks, units)
        if min(units, default=0) < 0:
            self._ease(book, jobs)

    def _ease(self, book: QueueBook, jobs: Sequence[Job]) -> None:
        """Jobs have given units back, so that others may start."""
        any_shut = book.settings.limits_keys and self.lanes.any_shut(book)
        if any_shut or book.settings.shares_room:
            self._eased.add(book.name)
        if any_shut:
            self.lanes.open_to(book, {job.key for job in jobs if job.key is not None})

    def members(self, name: str) -> dict[str, int]:
        """The queues within this one, and the units that each of them holds."""
        rows = self._connection.execute(_SQL["members"], (name,)).fetchall()
        members = dict(cast("list[tuple[str, int]]", rows))
        current = {n: book for n, book in self._by_name.items() if book.settings.within == name}
        return members | {n: book.used for n, book in current.items()}

    # -- settings --------------------------------------------------------------------------

    def configure(self, name: str, settings: QueueSettings) -> None:
        """New settings, in force from this moment of the transaction on."""
        book = self.queue(name)
        before = book.settings
        self.lanes.settle()
        if before.fair:
            self.lanes.keep_turns(book)
        book.settings = settings
        run = self._connection.execute
        text = _ENCODER.encode(settings).decode()
        run(_SQL["write_settings"], (book.id, text, settings.within))
        if before.order is not settings.order:
            run(_SQL["turn_order"], (book.id,))
        if _arrangement(before) != _arrangement(settings):
            self._arrange(book)
        self.lanes.open_all(book)

    def _arrange(self, book: QueueBook) -> None:
        """Put everybody into the lane, and everything onto the meters, that the settings want."""
        run, settings = self._connection.execute, book.settings
        tasks = _ENCODER.encode(limited_tasks(settings)).decode()
        run(_SQL["change_lanes"], (book.id, settings.limited, tasks))
        book.laned, book.changed = run(_SQL["count_laned"], (book.id,)).get, True
        self.meters.recount(book.id, keys=settings.limits_keys, tasks=tasks)
        self.lanes.make_anew(book)

    # -- closing ---------------------------------------------------------------------------

    def close(self) -> None:
        """Write the pages that changed."""
        self.lanes.settle()
        self.meters.settle()
        for book in self._by_name.values():
            if book.changed:
                row = (book.id, *book.counts, book.used, book.laned)
                self._connection.execute(_SQL["write_queue"], row)
                book.changed = False


def _awaits_reply(job: Job) -> bool:
    return job.waits_for is not None and job.waits_for.startswith(REPLY_PREFIX)


def _arrangement(settings: QueueSettings) -> tuple[bool, bool, Order, list[str]]:
    """On what lanes, their heads and meters depend."""
    return settings.limited, settings.limits_keys, settings.order, limited_tasks(settings)
