"""The books of one transaction: what it does to counters, keys and lanes.

Every job that moves is entered here; at the end each touched queue, key and lane is written
once. Nothing else writes those tables, so counts cost one statement a queue, however many jobs
moved.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from stoker.kernel.job import REPLY_PREFIX, Job, State
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.store.files import statements
from stoker.store.sqlite.library import Connection
from stoker.store.sqlite.rows import lane_of, order_columns

_SQL = statements("stoker.store.sqlite.sql", "books.sql")
_SETTINGS = msgspec.json.Decoder(QueueSettings)
_ENCODER = msgspec.json.Encoder()
_RUNNING = int(State.RUNNING)
_QUEUED = int(State.QUEUED)
_WAITING = int(State.WAITING)


class QueueBook:
    """One queue's page: its settings and its counters, kept current during the transaction."""

    __slots__ = ("changed", "counts", "id", "laned", "name", "settings", "used")

    def __init__(self, row: tuple[Any, ...], settings: QueueSettings) -> None:
        self.id: int = row[0]
        self.name: str = row[1]
        self.settings = settings
        self.counts: list[int] = list(row[3:9])
        self.used: int = row[9]
        self.laned: int = row[10]
        self.changed = False


class SettingsReader:
    """Decodes settings, remembering what it has seen: few texts serve many queues."""

    def __init__(self) -> None:
        self._seen: dict[str, QueueSettings] = {"{}": DEFAULTS}

    def __call__(self, text: str) -> QueueSettings:
        if text not in self._seen:
            if len(self._seen) > 1000:
                self._seen = {"{}": DEFAULTS}
            self._seen[text] = _SETTINGS.decode(text)
        return self._seen[text]


class Books:
    """All pages touched by one write transaction."""

    def __init__(self, connection: Connection, read_settings: SettingsReader) -> None:
        self._connection = connection
        self._read_settings = read_settings
        self._by_name: dict[str, QueueBook] = {}
        self._key_used: dict[tuple[int, str], int] = {}
        self._key_moved: set[tuple[int, str]] = set()
        self._lanes: set[tuple[int, str, int]] = set()
        self.eased: set[str] = set()
        """Limited queues in which room was made."""

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
            self._burden(book, job.key, sign * job.weight)
        elif state == _QUEUED and (job.key is not None or job.weight == 0):
            book.laned += sign
            self.lane_moved(book, job)

    def start(self, job: Job, count: int) -> None:
        """So many queued jobs of one queue, key, weight and rank were started."""
        book = self._by_name[job.queue]
        book.counts[_QUEUED] -= count
        book.counts[_RUNNING] += count
        book.changed = True
        if job.key is not None or job.weight == 0:
            book.laned -= count
            self.lane_moved(book, job)
        self._burden(book, job.key, count * job.weight)

    def add_plain(self, book: QueueBook, count: int) -> None:
        """Many laneless jobs were queued."""
        book.counts[_QUEUED] += count
        book.changed = True

    def move_plain(self, book: QueueBook, source: int, target: int, count: int, units: int) -> None:
        """Many keyless jobs of one queue moved alike, giving up or taking `units` in all."""
        book.counts[source] -= count
        book.counts[target] += count
        book.changed = True
        self._burden(book, None, units)

    def _burden(self, book: QueueBook, key: str | None, units: int) -> None:
        book.used += units
        if units < 0 and book.settings.limited:
            self.eased.add(book.name)
        if key is not None and units:
            spot = (book.id, key)
            self._key_used[spot] = self.key_used(book, key) + units
            self._key_moved.add(spot)

    def key_used(self, book: QueueBook, key: str) -> int:
        """Units of capacity that a key holds now."""
        spot = (book.id, key)
        if spot not in self._key_used:
            used = self._connection.execute(_SQL["key_use"], spot).get
            self._key_used[spot] = used or 0
        return self._key_used[spot]

    def lane_moved(self, book: QueueBook, job: Job) -> None:
        """A job joined or left a lane: its head has to be looked up again."""
        lane = lane_of(job.key, job.weight)
        if lane is not None:
            self._lanes.add((book.id, lane, order_columns(job.rank, book.settings)[0]))

    def shut_lane(self, book: QueueBook, lane: str, bucket: int) -> None:
        """The foremost job of a lane did not fit: nobody looks at it until something happens."""
        self._connection.execute(_SQL["shut_lane"], (book.id, lane, bucket))

    def configure(self, name: str, settings: QueueSettings) -> None:
        """New settings, in force from this moment of the transaction on."""
        book = self.queue(name)
        turned = book.settings.order is not settings.order
        self.settle_lanes()
        book.settings = settings
        text = _ENCODER.encode(settings).decode()
        self._connection.execute(_SQL["write_settings"], (book.id, text))
        self._connection.execute(_SQL["open_lanes"], (book.id,))
        if turned:
            self._turn(book)

    def _turn(self, book: QueueBook) -> None:
        run = self._connection.execute
        run(_SQL["turn_order"], (book.id,))
        run(_SQL["drop_heads"], (book.id,))
        for spot in run(_SQL["buckets_of_lanes"], (book.id,)).fetchall():
            self._lanes.add(cast("tuple[int, str, int]", spot))

    # -- closing ---------------------------------------------------------------------------

    def settle_lanes(self) -> None:
        """Look up the heads of lanes that moved, and open what an event may have made room for."""
        run = self._connection.execute
        opened = {(queue, lane) for queue, lane, _ in self._lanes}
        opened |= {(queue, "=" + key) for queue, key in self._key_moved}
        for spot in sorted(self._lanes):
            head = run(_SQL["foremost"], spot).get
            if head is None:
                run(_SQL["drop_head"], spot)
            else:
                run(_SQL["write_head"], (*spot, *head))
        self._lanes.clear()
        for lane in sorted(opened):
            run(_SQL["open_lane"], lane)
        self._write_key_use()

    def _write_key_use(self) -> None:
        for queue, key in sorted(self._key_moved):
            used = self._key_used[queue, key]
            if used:
                self._connection.execute(_SQL["write_key_use"], (queue, key, used))
            else:
                self._connection.execute(_SQL["drop_key_use"], (queue, key))
        self._key_moved.clear()

    def close(self) -> None:
        """Write the pages that changed."""
        self.settle_lanes()
        for book in self._by_name.values():
            if book.changed:
                row = (book.id, *book.counts, book.used, book.laned)
                self._connection.execute(_SQL["write_queue"], row)
                book.changed = False


def _awaits_reply(job: Job) -> bool:
    return job.waits_for is not None and job.waits_for.startswith(REPLY_PREFIX)
