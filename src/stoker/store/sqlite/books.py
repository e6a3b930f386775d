"""The books of one transaction: what it does to counters, meters and lanes.

Every job that moves is entered here; at the end each touched queue, meter and lane is written
once. Nothing else writes those tables, so counts cost one statement a queue, however many jobs
moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, cast

import msgspec

from stoker.kernel.admission import Turnstile, of_key, of_task
from stoker.kernel.job import REPLY_PREFIX, Job, State
from stoker.kernel.queue import DEFAULTS, Order, QueueSettings
from stoker.kernel.turns import Party, Turns
from stoker.store.files import statements
from stoker.store.sqlite.library import Connection
from stoker.store.sqlite.rows import key_of, kind_of, lane_of, lanes_of, order_columns
from stoker.store.walk import Candidate, limited_tasks

_SQL = statements("stoker.store.sqlite.sql", "books.sql")
_SETTINGS = msgspec.json.Decoder(QueueSettings)
_ENCODER = msgspec.json.Encoder()
_RUNNING = int(State.RUNNING)
_QUEUED = int(State.QUEUED)
_WAITING = int(State.WAITING)
_MANY = 1000


class QueueBook:
    """One queue's page: its settings and its counters, kept current during the transaction."""

    __slots__ = ("changed", "clock", "counts", "id", "laned", "name", "settings", "used")

    def __init__(self, row: tuple[Any, ...], settings: QueueSettings) -> None:
        self.id: int = row[0]
        self.name: str = row[1]
        self.settings = settings
        self.counts: list[int] = list(row[3:9])
        self.used: int = row[9]
        self.laned: int = row[10]
        self.clock: int = row[11]
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

    def __init__(self, connection: Connection, read_settings: SettingsReader, now: int) -> None:
        self._connection = connection
        self._read_settings = read_settings
        self._now = now
        self._by_name: dict[str, QueueBook] = {}
        self._use: dict[tuple[int, str], int] = {}
        self._lanes: dict[tuple[int, str, int], tuple[QueueBook, str | None]] = {}
        self._opened: set[tuple[int, str]] = set()
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
            self._burden(book, job, sign * job.weight)
        elif state == _QUEUED:
            self._lane_moved(book, job, sign)

    def start(self, job: Job, count: int) -> None:
        """So many queued jobs of one queue, task, key, weight and rank were started."""
        book = self._by_name[job.queue]
        book.counts[_QUEUED] -= count
        book.counts[_RUNNING] += count
        book.changed = True
        self._lane_moved(book, job, -count)
        self._burden(book, job, count * job.weight)

    def add_plain(self, book: QueueBook, count: int) -> None:
        """Many laneless jobs were queued."""
        book.counts[_QUEUED] += count
        book.changed = True

    def move(self, job: Job, target: int, count: int, units: int) -> None:
        """So many jobs of one queue, task, key and rank moved alike, and not into a lane, giving
        up or taking `units` in all."""
        book = self.queue(job.queue)
        book.counts[job.state] -= count
        book.counts[target] += count
        book.changed = True
        if job.state == _QUEUED:
            self._lane_moved(book, job, -count)
        self._burden(book, job, units)

    def _burden(self, book: QueueBook, job: Job, units: int) -> None:
        book.used += units
        if not units or not book.settings.limited:
            return
        if units < 0:
            self._eased.add(book.name)
        if job.key is not None:
            self._meter(book, of_key(job.key), units)
            if units < 0:
                self._opened.update((book.id, lane) for lane in lanes_of(job.key, book.settings))
        if book.settings.limits_task(job.name):
            self._meter(book, of_task(job.name), units)

    def _meter(self, book: QueueBook, meter: str, units: int) -> None:
        spot = (book.id, meter)
        self._use[spot] = self._use.get(spot, 0) + units

    def use(self, book: QueueBook, meter: str) -> int:
        """Units of capacity that a key or limited task holds now; what moved must be settled."""
        return self._connection.execute(_SQL["use"], (book.id, meter)).get or 0

    def all_use(self, book: QueueBook) -> dict[str, int] | None:
        """What every key and limited task holds, unless they are too many to be read."""
        rows = self._connection.execute(_SQL["all_use"], (book.id, _MANY + 1)).fetchall()
        return dict(cast("list[tuple[str, int]]", rows)) if len(rows) <= _MANY else None

    def members(self, name: str) -> dict[str, int]:
        """The queues within this one, and the units that each of them holds."""
        rows = self._connection.execute(_SQL["members"], (name,)).fetchall()
        members = dict(cast("list[tuple[str, int]]", rows))
        current = {n: book for n, book in self._by_name.items() if book.settings.within == name}
        return members | {n: book.used for n, book in current.items()}

    def _lane_moved(self, book: QueueBook, job: Job, joined: int) -> None:
        """Jobs joined or left a lane: its head has to be looked up again."""
        lane = lane_of(job.name, job.key, job.weight, book.settings)
        if lane is not None:
            book.laned += joined
            spot = (book.id, lane, order_columns(job.rank, book.settings)[0])
            self._lanes[spot] = (book, job.key)
            if joined > 0:
                self._opened.add((book.id, lane))  # it may come before one that did not fit

    def shut_lanes(self, book: QueueBook, full: Sequence[tuple[Candidate, int | None]]) -> None:
        """The foremost jobs of some lanes did not fit: nobody looks at them until something
        happens, or a moment comes."""
        rows = [
            (book.id, lane_of(job.name, job.key, job.weight, book.settings), wakes_at, self._now)
            for job, wakes_at in full
        ]
        self._for_all("shut_lane", rows)

    # -- settings --------------------------------------------------------------------------

    def configure(self, name: str, settings: QueueSettings) -> None:
        """New settings, in force from this moment of the transaction on."""
        book = self.queue(name)
        before = book.settings
        self.settle_lanes()
        book.settings = settings
        run = self._connection.execute
        text = _ENCODER.encode(settings).decode()
        run(_SQL["write_settings"], (book.id, text, settings.within))
        if before.order is not settings.order:
            run(_SQL["turn_order"], (book.id,))
        if _arrangement(before) != _arrangement(settings):
            self._arrange(book)
        run(_SQL["open_lanes"], (book.id, self._now))
        if settings.fair:
            self._begin_turns(book)

    def _arrange(self, book: QueueBook) -> None:
        """Put everybody into the lane, and everything onto the meters, that the settings want."""
        run, settings = self._connection.execute, book.settings
        tasks = _ENCODER.encode(limited_tasks(settings)).decode()
        run(_SQL["change_lanes"], (book.id, settings.limited, tasks))
        book.laned, book.changed = run(_SQL["count_laned"], (book.id,)).get, True
        run(_SQL["drop_all_use"], (book.id,))
        if settings.limited:
            run(_SQL["count_use"], (book.id, tasks))
        self._make_heads_anew(book)

    def _make_heads_anew(self, book: QueueBook) -> None:
        run = self._connection.execute
        run(_SQL["drop_heads"], (book.id,))
        for spot in run(_SQL["buckets_of_lanes"], (book.id,)).fetchall():
            self._lanes[cast("tuple[int, str, int]", spot)] = (book, key_of(str(spot[1])))
        self.settle_lanes()

    def _begin_turns(self, book: QueueBook) -> None:
        rows = self._connection.execute(_SQL["all_served"], (book.id,)).fetchall()
        served = cast("list[tuple[str, int]]", rows)
        self._write_turns(book, [(party[1:] if party else None, turn) for party, turn in served])

    # -- rates -----------------------------------------------------------------------------

    def flow(self, queue: str, meter: str) -> str:
        """What is remembered for a rate."""
        return self._connection.execute(_SQL["flow"], (queue, meter)).get or ""

    def remember_rates(self, turnstile: Turnstile) -> None:
        """What has started under the rates of a queue, and when they may let somebody in."""
        run = self._connection.execute
        for flow in turnstile.flows():
            run(_SQL["write_flow"], flow)
        run(_SQL["write_opening"], (self.queue(turnstile.name).id, turnstile.opens_at))

    def wake_lanes(self, book: QueueBook) -> None:
        """Open the lanes whose moment has come."""
        self._connection.execute(_SQL["wake_lanes"], (book.id, self._now))

    # -- turns -----------------------------------------------------------------------------

    def turns(self, book: QueueBook) -> Turns:
        """Whose turn it is in a fair queue."""
        self._connection.execute(_SQL["level_turns"], (book.id, book.clock))
        return Turns(book.settings, book.clock, lambda party: self._served(book, party))

    def _served(self, book: QueueBook, party: Party) -> int:
        return self._connection.execute(_SQL["served"], (book.id, _party(party))).get or 0

    def remember_turns(self, book: QueueBook, turns: Turns) -> None:
        """How far everybody has been served."""
        run = self._connection.execute
        moved = list(turns.moved())
        self._for_all("write_served", [(book.id, _party(party), turn) for party, turn in moved])
        self._write_turns(book, moved)
        if book.clock != turns.clock:
            book.clock = turns.clock
            run(_SQL["write_clock"], (book.id, book.clock))
            run(_SQL["forget_served"], (book.id, book.clock))

    def _write_turns(self, book: QueueBook, moved: Sequence[tuple[Party, int]]) -> None:
        settings = book.settings
        rows = [(book.id, lane, at) for party, at in moved for lane in lanes_of(party, settings)]
        self._for_all("write_turn", rows)

    # -- closing ---------------------------------------------------------------------------

    def settle_lanes(self) -> None:
        """Look up the heads of lanes that moved, and open what an event may have made room for."""
        spots = sorted(self._lanes.items(), key=itemgetter(0))
        self._for_all("write_head", [self._head(*spot, *about) for spot, about in spots])
        self._for_all("drop_head", [spot for spot, _ in spots])
        self._for_all("open_lane", [(*lane, self._now) for lane in sorted(self._opened)])
        self._lanes.clear()
        self._opened.clear()
        self._settle_use()

    def _head(
        self, queue: int, lane: str, bucket: int, book: QueueBook, key: str | None
    ) -> tuple[Any, ...]:
        turn = self._served(book, key) if book.settings.fair else 0
        return (queue, lane, bucket, kind_of(lane), turn, self._now)

    def _settle_use(self) -> None:
        moved = sorted((*spot, units) for spot, units in self._use.items())
        self._for_all("add_use", [row for row in moved if row[2] > 0])
        taken = [row for row in moved if row[2] < 0]
        self._for_all("take_use", taken)
        self._for_all("drop_use", [row[:2] for row in taken])
        self._use.clear()

    def _for_all(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            self._connection.executemany(_SQL[name], rows)

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


def _arrangement(settings: QueueSettings) -> tuple[bool, Order, list[str]]:
    """On what lanes and their heads depend."""
    return settings.limited, settings.order, limited_tasks(settings)


def _party(party: Party) -> str:
    return "" if party is None else of_key(party)
