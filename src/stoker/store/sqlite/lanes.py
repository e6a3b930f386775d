"""Lanes during one transaction: who is foremost in each, which of them are shut, whose turn it is.

A lane's head moves with every job that starts. When a claim has seen who is next it says so;
otherwise, and whenever a job leaves in another way, the next one is looked up at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from stoker.kernel.admission import of_key
from stoker.kernel.job import Job
from stoker.kernel.queue import Order
from stoker.kernel.turns import Party, Turns
from stoker.store.files import statements
from stoker.store.sqlite.library import Connection
from stoker.store.sqlite.many import for_all
from stoker.store.sqlite.queue_book import QueueBook
from stoker.store.sqlite.rows import (
    HEAD_OF_CANDIDATE,
    KEY_OF_CANDIDATE,
    Candidate,
    Row,
    key_of,
    kind_of,
    lane_of,
    lanes_of,
    order_columns,
)

_SQL = statements("stoker.store.sqlite.sql", "lanes.sql")

Spot = tuple[int, str, int]
"""A queue, a lane of it, and a bucket of that."""


class Lanes:
    """What one transaction does to lanes."""

    def __init__(self, connection: Connection, now: int) -> None:
        self._connection = connection
        self._now = now
        self._lost: dict[Spot, QueueBook] = {}
        self._arrived: dict[Spot, tuple[tuple[int, int, int], QueueBook]] = {}
        self._opened: dict[QueueBook, set[str]] = {}
        self._eased: dict[QueueBook, set[str]] = {}

    # -- who comes and goes ----------------------------------------------------------------

    def moved(self, book: QueueBook, job: Job, joined: int) -> None:
        """Jobs joined or left a lane: its head has to be looked up again."""
        lane = lane_of(job.name, job.key, job.weight, book.settings)
        if lane is not None:
            book.laned += joined
            self._lost[book.id, lane, order_columns(job.rank, book.settings)[0]] = book
            # It may come before one that did not fit, or have been that one. And where one head is
            # looked up the lane is open: others of it, in buckets before, must be so as well.
            self.open(book, lane)

    def arrived(self, book: QueueBook, lane: str, bucket: int, place: tuple[int, int, int]) -> None:
        """A new job stands in a lane: at due time, second and id."""
        book.laned += 1
        spot = (book.id, lane, bucket)
        known = self._arrived.get(spot)
        if known is None or place < known[0]:
            self._arrived[spot] = (place, book)
        self.open(book, lane)

    def open(self, book: QueueBook, lane: str) -> None:
        """Something happened that may let a lane's jobs start."""
        self._opened.setdefault(book, set()).add(lane)

    def open_to(self, book: QueueBook, keys: set[str]) -> None:
        """The jobs of some keys may start now, in whichever lane they stand."""
        self._eased.setdefault(book, set()).update(keys)

    def make_anew(self, book: QueueBook) -> None:
        """The lanes of a queue are others now."""
        run = self._connection.execute
        run(_SQL["drop_heads"], (book.id,))
        for spot in run(_SQL["buckets_of_lanes"], (book.id,)).fetchall():
            self._lost[cast("Spot", spot)] = book
        self.settle()

    def settle(self) -> None:
        """Write the heads of lanes that moved, and open what an event may have made room for."""
        if self._lost or self._arrived:
            self._write_heads()
        for book in {**self._opened, **self._eased}:
            lanes = self._shut_of(book, self._opened.get(book, set()), self._eased.get(book, set()))
            opened = [(book.id, lane, self._now, book.first_turn) for lane in sorted(lanes)]
            self._for_all("open_lane", opened)
        self._opened.clear()
        self._eased.clear()

    def _shut_of(self, book: QueueBook, lanes: set[str], keys: set[str]) -> set[str]:
        """Of these lanes, and of those of these keys, the ones that are shut; others may be among
        them if so many are shut that it is dearer to look at all."""
        most = len(lanes) + len(keys)
        shut = self._connection.execute(_SQL["shut_lanes"], (book.id, most)).fetchall()
        if len(shut) < most:
            return {lane for (lane,) in shut if lane in lanes or key_of(lane) in keys}
        return lanes.union(*(lanes_of(key, book.settings) for key in keys))

    def _write_heads(self) -> None:
        lost = sorted(self._lost.items(), key=_spot)
        heads = [self._head(spot, book) for spot, book in lost]
        self._for_all("write_head", [(*head, self._now) for head in heads])
        self._for_all("drop_head", [spot for spot, _ in lost])
        turns = [(queue, _party(key_of(lane)), turn) for queue, lane, _, _, turn in heads if turn]
        self._for_all("write_served", turns)  # there may be no head any more that knows it
        arrived = sorted((spot, at) for spot, at in self._arrived.items() if spot not in self._lost)
        rows = [(*self._head(spot, book), *place, self._now) for spot, (place, book) in arrived]
        self._for_all("join_lane", rows)
        self._lost.clear()
        self._arrived.clear()

    def _head(self, spot: Spot, book: QueueBook) -> tuple[int, str, int, str, int]:
        lane = spot[1]
        turn = self.served(book, key_of(lane)) if book.settings.fair else 0
        return (*spot, kind_of(lane), turn)

    def any_shut(self, book: QueueBook) -> bool:
        """Is there a lane that nobody looks at?"""
        return self._connection.execute(_SQL["any_shut"], (book.id,)).get is not None

    # -- what claims do --------------------------------------------------------------------

    def wake(self, book: QueueBook) -> None:
        """Open the lanes whose moment has come."""
        self._connection.execute(_SQL["wake_lanes"], (book.id, self._now, book.first_turn))

    def taken(self, book: QueueBook, chosen: Sequence[Candidate], turns: Turns | None) -> None:
        """Jobs of a queue were chosen to start; those that were heads tell who follows."""
        heads: dict[Spot, Candidate] = {}
        settings = book.settings
        for each in chosen:
            lane = lane_of(each.name, each.key, each.weight, settings)
            if lane is None:
                continue
            book.laned -= 1
            spot = (book.id, lane, order_columns(each.rank, settings)[0])
            if spot in heads or each.head is None:
                self._lost[spot] = book
            heads[spot] = each
        moved = dict(turns.moved()) if turns is not None else {}
        self.advance(book, [head for spot, head in heads.items() if spot not in self._lost], moved)
        self.write_turns(book, moved)

    def advance(
        self, book: QueueBook, heads: Iterable[Row], turns: Mapping[Party, int]
    ) -> set[Party]:
        """Put the followers of heads that are gone into their places, where it is their turn. The
        keys of those lanes; the others have no head now, or one that is looked up later."""
        rows, gone, keys = [], [], set()
        by_time = book.settings.order is Order.TIME_RANK
        for row in heads:
            head, _, next_id, next_rank, next_due = row[HEAD_OF_CANDIDATE:]
            if next_id is None:
                gone.append((head,))
            elif next_due > self._now:
                self.lose(book, row)
            else:
                key = row[KEY_OF_CANDIDATE]
                keys.add(key)
                turn = turns[key] if turns else 0
                rows.append((head, turn, next_due, next_rank if by_time else 0, next_id))
        self._for_all("move_head", rows)
        self._for_all("drop_empty", gone)
        return keys

    def lose(self, book: QueueBook, row: Row) -> None:
        """A lane's head, read as a `Candidate`, is gone, and somebody unknown follows."""
        job = Candidate._make(row)
        lane = lane_of(job.name, job.key, job.weight, book.settings)
        assert lane is not None
        self._lost[book.id, lane, order_columns(job.rank, book.settings)[0]] = book

    def shut(self, book: QueueBook, full: Sequence[tuple[Candidate, int | None]]) -> None:
        """The foremost jobs of some lanes did not fit: nobody looks at them until something
        happens, or a moment comes."""
        opens_at = {
            lane_of(job.name, job.key, job.weight, book.settings): moment for job, moment in full
        }
        rows = [(book.id, lane, moment, self._now) for lane, moment in opens_at.items()]
        self._for_all("shut_lane", rows)

    def open_all(self, book: QueueBook) -> None:
        """The queue has other limits, or turns."""
        self._connection.execute(_SQL["open_lanes"], (book.id, self._now, book.first_turn))
        if book.settings.fair:
            rows = self._connection.execute(_SQL["all_served"], (book.id,)).fetchall()
            served = cast("list[tuple[str, int]]", rows)
            self.write_turns(book, {party[1:] if party else None: turn for party, turn in served})

    # -- turns -----------------------------------------------------------------------------

    def level(self, book: QueueBook, kind: str, bucket: int) -> None:
        """Nobody is further back in the order of turns than the queue's clock."""
        self._connection.execute(_SQL["level_turns"], (book.id, kind, bucket, book.clock))

    def served(self, book: QueueBook, party: Party) -> int:
        """How far a party has been served: as its heads know, or as was written down."""
        ask, lanes = self._connection.execute, lanes_of(party, book.settings)
        found = [ask(_SQL["turn_of_lane"], (book.id, lane)).get for lane in lanes]
        found.append(ask(_SQL["served"], (book.id, _party(party))).get)
        turns: list[int] = [turn for turn in found if turn is not None]
        return max(book.clock, *turns, 0)

    def remember(self, book: QueueBook, moved: Mapping[Party, int], clock: int) -> None:
        """How far parties have been served, those whose heads tell it apart."""
        self._for_all("write_served", [(book.id, _party(p), turn) for p, turn in moved.items()])
        if book.clock != clock:
            book.clock = clock
            self._connection.execute(_SQL["write_clock"], (book.id, book.clock))
            self._connection.execute(_SQL["forget_served"], (book.id, book.clock))

    def keep_turns(self, book: QueueBook) -> None:
        """Remember what heads know, since they may change."""
        rows = self._connection.execute(_SQL["turns_of_lanes"], (book.id, book.clock)).fetchall()
        turns = [(book.id, _party(key_of(lane)), turn) for lane, turn in rows]
        self._for_all("write_served", turns)

    def write_turns(self, book: QueueBook, moved: Mapping[Party, int]) -> None:
        """Parties have been served so far, hence all their lanes."""
        rows = [
            (book.id, lane, turn)
            for party, turn in moved.items()
            for lane in lanes_of(party, book.settings)
        ]
        self._for_all("write_turn", rows)

    def _for_all(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        for_all(self._connection, _SQL[name], rows)


def _spot(item: tuple[Spot, QueueBook]) -> Spot:
    return item[0]


def _party(party: Party) -> str:
    return "" if party is None else of_key(party)
