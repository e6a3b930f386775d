"""Several partitions as one store.

A call goes to the partitions it concerns, one after the other, each in one atomic step. What has to
be decided in one place has one home (`homes.py`): a job, a name, a limited queue. Sessions are
enrolled everywhere, since each partition asks whether they live. Notes are decided on in the first
partition and known in all, since jobs anywhere may be guarded by them.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from stoker.errors import BadInput, Refused, Scattered
from stoker.kernel.change import Change, Note
from stoker.kernel.job import REPLY_PREFIX, STATES, Job, partition_of
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.store import (
    OK,
    Answer,
    Beat,
    Claim,
    Filter,
    InLine,
    Query,
    QueueView,
    Receipt,
    Session,
)
from stoker.store.choosing import ordering
from stoker.store.redis.homes import Homes, anchor
from stoker.store.redis.partition import Partition
from stoker.store.redis.steps import Misplaced

T = TypeVar("T")

_REPLACE = msgspec.structs.replace
_SETTINGS_AGE = 1_000_000
_MUCH = 32
_STAYS = 100_000
"""So long jobs elsewhere may have to wait before they are asked for."""


class Spread:
    """The verbs of a store, over all its partitions."""

    def __init__(self, parts: Sequence[Partition], now: Callable[[], int]) -> None:
        self._parts = parts
        self._first = parts[0]
        self._now = now
        self._homes = Homes(len(parts), self._anchor_of)
        self._nobodys = itertools.cycle(range(len(parts)))
        self._start, self._since = 0, -_STAYS
        self._rung: dict[int, None] = {}
        self._anchors: dict[str, tuple[int, str | None]] = {}

    def rung(self, partition: int) -> None:
        """Something happened there: look there first."""
        self._rung[partition] = None

    # -- writing ---------------------------------------------------------------------------

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        """Each Change in its home; then the claims, from partition to partition."""
        # All plans are made before the first is carried out: a Change that cannot be is refused
        # while nothing has happened.
        plans = [self._plan(change) for change in changes]
        trip = _Trip(self._parts, len(changes), claims)
        for place, (change, plan) in enumerate(zip(changes, plans, strict=True)):
            if change.queues or change.notes:
                trip.go()
                trip.receipts[place] = self._by_itself(change, plan)
            else:
                for home, part in plan.items():
                    trip.take(home, place, part)
        trip.go(self._round() if claims else ())
        alone = len(changes) == 1 and not claims
        receipts = [
            self._replaced(change, receipt, alone=alone)
            for change, receipt in zip(changes, trip.receipts, strict=True)
        ]
        return Answer(receipts, trip.grants)

    def _plan(self, change: Change) -> dict[int, Change]:
        """The Change by partition."""
        if change.queues:
            if change != Change(queues=change.queues, rings=change.rings, last=change.last):
                raise BadInput("settings of queues must be a Change of their own")
            return {}
        self._homes.check_names(change)
        homes = self._homes.of_change(change)
        if not homes:
            return {0 if change.notes else next(self._nobodys): change}
        if len(homes) == 1:
            return dict.fromkeys(homes, change)
        if change.inserts or change.notes:
            raise Scattered(
                "jobs of several partitions cannot be taken in or guarded in one step; enqueue "
                "those with different unique keys or references one by one"
            )
        return _apart(change)

    def _by_itself(self, change: Change, plan: dict[int, Change]) -> Receipt:
        if change.queues:
            for name, settings in change.queues:
                self._configure(name, settings)
            return self._decide(0, Change(rings=change.rings))
        ((home, whole),) = plan.items()
        return self._with_notes(home, whole)

    def _replaced(self, change: Change, receipt: Receipt, *, alone: bool) -> Receipt:
        """A queue was limited just now, and jobs for it came to another partition; or others came
        along with such a job."""
        if not isinstance(receipt, Misplaced):
            return receipt
        self._anchors[receipt.queue] = (self._now(), receipt.anchor)
        ((home, whole), *_) = self._plan(change).items()
        again = self._decide(home, whole)
        if isinstance(again, Misplaced) and alone:
            raise Refused(
                f"the queue {again.queue!r} is limited, and its jobs live in another partition: a "
                "job from here cannot join them; enqueue a new one instead"
            )
        return Receipt(ok=False) if isinstance(again, Misplaced) else again

    def _round(self) -> Iterator[int]:
        """All partitions: those that rang first, the others from a different start each time.

        Whoever comes again at once finds the same: it reports on jobs from there, so that one call
        does for both. A worker's two boats stay together, and keep one server busy at a time.
        """
        rung, self._rung = self._rung, {}
        now = self._now()
        if not 0 <= now - self._since < _STAYS:
            self._start, self._since = (self._start + 1) % len(self._parts), now
        start = self._start
        others = [*range(start, len(self._parts)), *range(start)]
        return iter(dict.fromkeys([*rung, *others]))

    # -- notes -----------------------------------------------------------------------------

    def _with_notes(self, home: int, change: Change) -> Receipt:
        """Replies are guarded by the copy in the job's partition, all else in the first one."""
        replies = all(note.key.startswith(REPLY_PREFIX) for note in change.notes)
        if home != 0 and not replies:
            receipt = self._decide(0, Change(notes=change.notes))
            if not receipt.ok:
                return receipt
            free = tuple(_REPLACE(note, expect=None) for note in change.notes)
            change = _REPLACE(change, notes=free)
        receipt = self._decide(home, change)
        if receipt.ok:
            self._copy_notes(0 if not replies else home, [note.key for note in change.notes])
        return receipt

    def _decide(self, home: int, change: Change) -> Receipt:
        return self._parts[home].transact([change]).receipts[0]

    def _copy_notes(self, source: int, keys: Sequence[str]) -> None:
        notes = self._parts[source].notes(keys)
        for part in self._parts:
            if part.number != source:
                part.copy_notes(keys, notes)

    # -- settings --------------------------------------------------------------------------

    def _configure(self, name: str, settings: QueueSettings) -> None:
        """Everywhere; but a limit holds only where all jobs of the queue are in one place."""
        before = {part.number: part.survey([name]) for part in self._parts}
        done: list[Partition] = []
        # The home comes last: once it lets jobs in by the limit, nobody else does.
        for part in sorted(self._parts, key=lambda part: not self._is_away(part, name, settings)):
            if not part.configure(name, settings, away=self._is_away(part, name, settings)):
                self._undo(name, done, before)
                raise Refused(
                    f"the queue {name!r} has jobs in several partitions, or in another one than "
                    "its limit is kept in, so that it could not be kept; let it run dry first, or "
                    "limit it before its first job"
                )
            done.append(part)
        self._anchors[name] = (self._now(), anchor(name, settings))

    def _is_away(self, part: Partition, name: str, settings: QueueSettings) -> bool:
        held_by = anchor(name, settings)
        return held_by is not None and self._homes.of_queue(held_by) != part.number

    def _undo(self, name: str, done: list[Partition], before: dict[int, list[QueueView]]) -> None:
        for part in done:
            views = before[part.number]
            settings = views[0].settings if views else QueueSettings()
            part.configure(name, settings, away=self._is_away(part, name, settings))

    def _anchor_of(self, queue: str) -> str | None:
        now = self._now()
        read_at, known = self._anchors.get(queue, (None, None))
        if read_at is None or not read_at <= now < read_at + _SETTINGS_AGE:
            views = self._first.survey([queue])
            known = anchor(queue, views[0].settings) if views else None
            self._anchors[queue] = (now, known)
        return known

    # -- the rest of writing ---------------------------------------------------------------

    def adopt(self, jobs: Sequence[Job]) -> None:
        """Each job by its id."""
        for home, some in _by_partition(jobs, lambda job: job.id).items():
            if home >= len(self._parts):
                raise BadInput(
                    f"job {some[0].id} belongs to partition {home}, and there are only "
                    f"{len(self._parts)}; open the store with ?partitions={home + 1} or more"
                )
            self._parts[home].adopt(some)

    def enrol(self, session: Session, ttl: int) -> None:
        """Everywhere."""
        for part in self._parts:
            part.enrol(session, ttl)

    def beat(self, session: int, ttl: int, *, watch: bool) -> Beat:
        """Everywhere; who is dead somewhere is dead."""
        beats = [part.beat(session, ttl, watch=watch) for part in self._parts]
        if not all(beat.alive for beat in beats):
            self.retire(session)
            return Beat(alive=False)
        return Beat(
            alive=True,
            cancelled=tuple(i for beat in beats for i in beat.cancelled),
            troubled=any(beat.troubled for beat in beats),
        )

    def retire(self, session: int) -> None:
        """Everywhere."""
        for part in self._parts:
            part.retire(session)

    def hold(self, name: str, owner: str, ttl: int) -> bool:
        """In the first partition."""
        return self._first.hold(name, owner, ttl)

    def tidy(self) -> None:
        """Everywhere."""
        for part in self._parts:
            part.tidy()

    # -- looking ---------------------------------------------------------------------------

    def get(self, ids: Iterable[int]) -> dict[int, Job]:
        """Each from its partition."""
        found: dict[int, Job] = {}
        for home, some in _by_partition(ids, lambda job_id: job_id).items():
            if home < len(self._parts):
                found |= self._parts[home].get(some)
        return found

    def find(self, query: Query) -> list[Job]:
        """Ids count on from partition to partition, so pages do, too."""
        if isinstance(query, InLine):
            return self._in_line(query)
        if not isinstance(query, Filter):
            found = (part.find(query) for part in self._parts)
            return list(itertools.islice(heapq.merge(*found, key=lambda job: job.id), query.limit))
        jobs: list[Job] = []
        for part in self._in_order(query):
            begun = query.after is not None and partition_of(query.after) == part.number
            after = query.after if begun else None
            jobs += part.find(_REPLACE(query, after=after, limit=query.limit - len(jobs)))
            if len(jobs) == query.limit:
                break
        return jobs

    def _in_line(self, query: InLine) -> list[Job]:
        views = self.survey([query.queue])
        order = ordering(views[0].settings if views else DEFAULTS)
        found = (part.find(query) for part in self._parts)
        return list(itertools.islice(heapq.merge(*found, key=order), query.limit))

    def _in_order(self, query: Filter) -> Iterable[Partition]:
        if query.parent_id is not None:
            return self._parts[partition_of(query.parent_id) : partition_of(query.parent_id) + 1]
        after = None if query.after is None else partition_of(query.after)
        if query.newest_first:
            return reversed(self._parts[: None if after is None else after + 1])
        return self._parts[after or 0 :]

    def survey(self, names: Sequence[str] | None = None) -> list[QueueView]:
        """All counts together; the settings are the same everywhere, or on their way to be."""
        views: dict[str, QueueView] = {}
        for part in self._parts:
            for view in part.survey(names):
                known = views.get(view.name)
                views[view.name] = view if known is None else _sum(known, view)
        return list(views.values())

    def listed(self, index: str, prefix: str) -> list[str]:
        """The names of all partitions."""
        return sorted({name for part in self._parts for name in part.listed(index, prefix)})

    def next_due(self, queues: Sequence[str], after: int | None) -> int | None:
        """The earliest of all partitions."""
        dues = [part.next_due(queues, after) for part in self._parts]
        return min((due for due in dues if due is not None), default=None)

    def flows(self, queue: str, meters: Sequence[str]) -> dict[str, str]:
        """From wherever the queue's jobs live."""
        found: dict[str, str] = {}
        for part in self._parts:
            found |= part.flows(queue, meters)
        return found

    def notes(self, keys: Sequence[str] | None) -> dict[str, Note]:
        """As the first partition has them."""
        return self._first.notes(keys)

    def sessions(self) -> list[Session]:
        """As the first partition has them."""
        return self._first.sessions()

    def troubled(self) -> bool:
        """Anywhere."""
        return any(part.troubled() for part in self._parts)


_Bag = list[tuple[int, Change]]
"""Parts of Changes, with the places of the Changes."""


class _Trip:
    """Parts of Changes on their way to their partitions, and claims on their way through all."""

    def __init__(self, parts: Sequence[Partition], changes: int, claims: Sequence[Claim]) -> None:
        self._parts = parts
        self._claims = claims
        self._bags: dict[int, _Bag] = {}
        self.receipts: list[Receipt] = [OK] * changes
        self.grants: list[list[Job] | None] = [[] for _ in claims]

    def take(self, home: int, place: int, part: Change) -> None:
        """A part of the Change at this place is to be carried out there."""
        self._bags.setdefault(home, []).append((place, part))

    def go(self, claiming: Iterable[int] = ()) -> None:
        """Visit the partitions for which there is something, and those to claim from."""
        claiming = list(claiming)
        under_way = self._begun(claiming[:1]) if self._is_loaded() else {}
        for home in dict.fromkeys([*claiming, *self._bags]):
            bag = self._bags.pop(home, [])
            wishes = self._wishes() if home in claiming else []
            if wishes and home in under_way:
                self._note(*under_way.pop(home)())  # which may have made room
            if bag or wishes:
                answer = self._parts[home].transact(
                    [part for _, part in bag], [claim for _, claim in wishes]
                )
                self._note(bag, answer)
                for (place, _), grant in zip(wishes, answer.grants, strict=True):
                    self._grant(place, grant)
        for answered in under_way.values():
            self._note(*answered())

    def _is_loaded(self) -> bool:
        """Will the first partition probably have all that is wanted? Whoever goes on to the others
        had better take along what is for them."""
        return not self._claims or any(claim.limit >= _MUCH for claim in self._claims)

    def _begun(self, first: Sequence[int]) -> dict[int, Callable[[], tuple[_Bag, Answer]]]:
        """What is for others than the first is sent ahead: servers work at the same time."""
        elsewhere = [home for home in self._bags if home not in first]
        bags = {home: self._bags.pop(home) for home in elsewhere}
        return {home: self._sent(home, bag) for home, bag in bags.items()}

    def _sent(self, home: int, bag: _Bag) -> Callable[[], tuple[_Bag, Answer]]:
        answered = self._parts[home].begin([part for _, part in bag])
        return lambda: (bag, answered())

    def _note(self, bag: _Bag, answer: Answer) -> None:
        for (place, _), receipt in zip(bag, answer.receipts, strict=True):
            self.receipts[place] = _joined(self.receipts[place], receipt)

    def _wishes(self) -> list[tuple[int, Claim]]:
        """What is still wanted."""
        left = [
            (place, claim, claim.limit - len(grant))
            for place, (claim, grant) in enumerate(zip(self._claims, self.grants, strict=True))
            if grant is not None
        ]
        return [(place, _REPLACE(claim, limit=more)) for place, claim, more in left if more]

    def _grant(self, place: int, grant: Sequence[Job] | None) -> None:
        held = self.grants[place]
        if grant is not None and held is not None:
            held.extend(grant)
        elif not held:
            self.grants[place] = None


def _apart(change: Change) -> dict[int, Change]:
    """A Change that only moves jobs, by where they live."""
    writes = _by_partition(change.writes, lambda write: write.job.id)
    touches = _by_partition(change.touches, lambda touch: touch.id)
    tallies = _by_partition(change.tallies, lambda tally: tally.parent_id)
    deletes = _by_partition(change.deletes, lambda job: job.id)
    homes = sorted(writes.keys() | touches.keys() | tallies.keys() | deletes.keys())
    return {
        home: Change(
            writes=tuple(writes.get(home, ())),
            touches=tuple(touches.get(home, ())),
            tallies=tuple(tallies.get(home, ())),
            deletes=tuple(deletes.get(home, ())),
            rings=change.rings if home == homes[0] else (),
        )
        for home in homes
    }


def _joined(one: Receipt, other: Receipt) -> Receipt:
    """What became of two parts of a Change."""
    if one is OK or isinstance(other, Misplaced):
        return other
    return Receipt(
        ok=one.ok and other.ok,
        ids=one.ids or other.ids,
        stale=one.stale + other.stale,
        parents=one.parents + other.parents,
    )


def _sum(one: QueueView, other: QueueView) -> QueueView:
    counts = {state: one.counts[state] + other.counts[state] for state in STATES}
    return _REPLACE(one, counts=counts, used=one.used + other.used)


def _by_partition(things: Iterable[T], id_of: Callable[[T], int]) -> dict[int, list[T]]:
    sorted_out: dict[int, list[T]] = {}
    for thing in things:
        sorted_out.setdefault(partition_of(id_of(thing)), []).append(thing)
    return sorted_out
