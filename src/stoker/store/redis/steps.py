"""From Changes to the steps a server carries out, and from its results to receipts.

Whatever follows from the copies that decisions were made on is worked out here; the server compares
guards and moves jobs between the places it is told. Jobs that move alike are told as one group, and
runs of Changes with nothing to refuse, or with one job each, as one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from stoker.kernel.change import (
    Change,
    Copies,
    Note,
    NoteWrite,
    Tally,
    Touch,
    Write,
    applied,
    kinds,
)
from stoker.kernel.job import QUEUED, Job
from stoker.kernel.queue import QueueSettings
from stoker.store import OK, Claim, Receipt
from stoker.store.redis import layout
from stoker.store.redis.layout import JobReader, number_of, raw, raw_or_none
from stoker.store.redis.names import given_up, names_in, newcomer
from stoker.store.redis.settings import settings_told
from stoker.store.redis.stand import (
    FREE,
    KEY,
    LANE,
    MARKS,
    UNITS,
    Stand,
    hexadecimal,
    lane,
    moved,
    place,
    stand,
    told,
)
from stoker.store.rings import rings_of
from stoker.store.twins import names_held

Group = list[Any]

_REPLACE = msgspec.structs.replace

_ABOUT = frozenset(("queue", "name", "format", "rank", "due_at", "policy", "created_at"))
_ABOUT |= {"scheduled_at", "weight", "key", "unique_key", "ref", "meta", "parent_id"}
_LIFE_BEGINS = Job.__struct_fields__.index("open_children")
_UNBORN = msgspec.structs.astuple(Job(""))[_LIFE_BEGINS:]

# Jobs alike in all of this move alike; those that stand in line also need the same key and place.
_alike = attrgetter(
    *("queue", "state", "weight", "parent_id", "unique_key", "policy"),
    *Job.__struct_fields__[_LIFE_BEGINS:],
)
_line = attrgetter("key", "rank", "due_at")


class Misplaced(Receipt, frozen=True, gc=False):
    """Nothing happened: the queue is limited, and its jobs live in another partition."""

    queue: str = ""
    anchor: str = ""
    """By whose name its jobs find together: its own, or that of the queue it is within."""


class Step(NamedTuple):
    """What the server is told, and for how many jobs of which Changes."""

    told: list[Any]
    changes: list[Change]


class Steps:
    """A call in the making."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self.payloads: list[bytes] = []
        """What goes along as arguments of its own: payloads and bodies of new jobs."""
        self.steps: list[Step] = []
        for way, run in groupby(changes, key=_way_of):
            way(self, list(run))

    def add_inserts(self, changes: list[Change]) -> None:
        """Changes that cannot be refused: new jobs without names."""
        groups: list[Group] = []
        for copies, run in groupby(changes, key=_are_copies):
            batches = [change.inserts for change in run]
            jobs = batches if copies else [[job for batch in batches for job in batch]]
            groups += [group for batch in jobs for group in self._insert_groups(batch)]
        self._add(changes, inserts=groups)

    def add_singles(self, changes: list[Change]) -> None:
        """Changes with one job each; those about a job that was just moved come after."""
        run: list[Change] = []
        met: set[int] = set()
        for change in changes:
            job = change.writes[0].job if change.writes else change.deletes[0]
            if job.id in met:
                self._add_run(run)
                run, met = [], set()
            run.append(change)
            met.add(job.id)
        self._add_run(run)

    def _add_run(self, changes: list[Change]) -> None:
        writes = [change.writes[0] for change in changes if change.writes]
        deletes = [change.deletes[0] for change in changes if change.deletes]
        self._add(changes, each=True, moves=_move_groups(writes), drops=_drop_groups(deletes))

    def add_whole(self, changes: list[Change]) -> None:
        """Changes of any kind, one by one."""
        for change in changes:
            self._add(
                [change],
                moves=_move_groups(change.writes),
                drops=_drop_groups(change.deletes),
                touches=[_touch(touch) for touch in change.touches],
                inserts=self._insert_groups(change.inserts),
                tallies=[_tally(tally) for tally in change.tallies],
                queues=[settings_told(name, each) for name, each in change.queues],
                notes=[[*_note(note), None] for note in change.notes],
                names=names_in(change),
            )

    def adopt(self, jobs: Sequence[Job], displaced: Sequence[Job]) -> None:
        """Jobs that bring their ids with them, in place of others."""
        groups = []
        for job in jobs:
            (group,) = self._insert_groups([job])
            group[0] = raw(number_of(job.id))
            groups.append(group)
        newcomers = [newcomer(0, job) for job in jobs if names_held(job)]
        freed = [part for job in displaced for part in given_up(job)]
        self._add(
            [],
            drops=_drop_groups(displaced),
            inserts=groups,
            names=[newcomers, freed] if newcomers or freed else None,
        )

    def configure(self, name: str, settings: QueueSettings, *, away: bool) -> None:
        """Settings of a queue, whose jobs may live in another partition."""
        change = Change(queues=((name, settings),))
        self._add([change], queues=[settings_told(name, settings, away=away)])

    def copy_notes(self, keys: Sequence[str], notes: Mapping[str, Note]) -> None:
        """Notes as another partition has them."""
        copies = []
        for key in keys:
            note = notes.get(key)
            value, until = (None, None) if note is None else (note.value, note.until)
            revision = None if note is None else note.revision
            copies.append([*_note(NoteWrite(key, value, until)), revision])
        self._add([Change()], notes=copies)

    def _add(self, changes: list[Change], **parts: Any) -> None:
        listed = [parts.get(part, ()) for part in _PARTS]
        each, names, rings = parts.get("each", False), parts.get("names"), rings_of(changes)
        self.steps.append(Step([each, *listed, names, list(rings)], changes))

    def _insert_groups(self, jobs: Sequence[Job]) -> list[Group]:
        if not jobs:
            return []
        if isinstance(jobs, Copies):
            group = self._insert_group([jobs.template], layout.head(jobs.template), jobs.payloads)
            return [[len(jobs), *group]]
        groups = []
        for _, run in groupby(jobs, key=_stands_alike):
            alike = list(run)
            bodies = [layout.head(job) + job.payload for job in alike]
            groups.append([len(alike), *self._insert_group(alike, None, bodies)])
        return groups

    def _insert_group(
        self, alike: Sequence[Job], head: bytes | None, payloads: Sequence[bytes]
    ) -> Group:
        first = len(self.payloads) + 2
        self.payloads += payloads
        one_place = len(alike) == 1 or alike[0].state is not QUEUED
        places = None if one_place else raw(b"".join(map(place, alike)))
        where = stand(alike[0])
        if places is not None:
            where[LANE] = _lanes(alike)
        life = raw_or_none(layout.life(alike[0]))
        return [told(where, where[MARKS]), places, raw_or_none(head), first, life]

    # -- results ---------------------------------------------------------------------------

    def receipts(self, results: Sequence[Any], reader: JobReader) -> list[Receipt]:
        """What became of the Changes, in the order in which they were given."""
        receipts: list[Receipt] = []
        for step, result in zip(self.steps, results, strict=True):
            changes = step.changes
            if result[0] == 2:
                receipts += [_misplaced(*result[1:])] * len(changes)
            elif step.told[0]:
                receipts += _each(changes, result[1], reader)
            elif result[0]:
                receipts += _done(changes, result, reader)
            else:
                receipts.append(_refused(result, reader))
        return receipts


_PARTS = ("moves", "drops", "touches", "inserts", "tallies", "queues", "notes")


def _way_of(change: Change) -> Any:
    if change.touches or change.tallies or change.queues or change.notes:
        return Steps.add_whole
    jobs = len(change.inserts), len(change.writes), len(change.deletes)
    if jobs[0] == sum(jobs):
        return Steps.add_whole if any(map(names_held, kinds(change.inserts))) else Steps.add_inserts
    alone = jobs in ((0, 1, 0), (0, 0, 1)) and names_in(change) is None
    if alone and not change.rings:  # those of a run are rung whatever becomes of it
        return Steps.add_singles
    return Steps.add_whole


def _are_copies(change: Change) -> bool:
    return isinstance(change.inserts, Copies)


# -- groups --------------------------------------------------------------------------------


def _stands_alike(job: Job) -> tuple[Any, ...]:
    # Only those who hold units have to be of one key.
    waits = lane(job) == FREE if job.state is QUEUED else job.key
    facts = (job.queue, job.state, waits, job.parent_id, job.policy.repeat)
    lived = msgspec.structs.astuple(job)[_LIFE_BEGINS:]
    return facts if lived == _UNBORN else (*facts, lived)


def _move_groups(writes: Iterable[Write]) -> list[Group]:
    groups: list[Group] = []
    last: tuple[Any, ...] | None = None
    alike: list[Write] = []
    for write in writes:
        likeness = _likeness(write)
        if likeness != last or likeness is None:
            if alike:
                groups.append(_move_group(alike))
            alike, last = [], likeness
        alike.append(write)
    if alike:
        groups.append(_move_group(alike))
    return groups


def _likeness(write: Write) -> tuple[Any, ...] | None:
    """Writes that are alike in this can be told as one; None: it must be told alone."""
    job, news = write.job, write.set
    if "payload" in news or not _ABOUT.isdisjoint(news):
        return None
    said = news if "result" not in news else {k: v for k, v in news.items() if k != "result"}
    if job.state is QUEUED or news.get("state") is QUEUED:
        return (said, _alike(job), _line(job))
    return (said, _alike(job))


def _move_group(writes: Sequence[Write]) -> Group:
    job, news = writes[0].job, writes[0].set
    after = applied(job, writes[0])
    before_stand, after_stand = moved(stand(job), stand(after))
    for where in (before_stand, after_stand):
        where[KEY] = _keys(where, [write.job for write in writes])
    numbers = b"".join([number_of(write.job.id) for write in writes])
    return [
        *(raw(numbers), raw(layout.guard(job)), before_stand, after_stand),
        *(raw(layout.fixed(after)), *_signs(news), _rests(writes, after)),
        None if _ABOUT.isdisjoint(news) else raw(layout.head(after)),
        raw_or_none(news.get("payload")),
    ]


def _signs(news: Mapping[str, Any]) -> list[Any]:
    """What a sign of life can move, as far as it is set: the lease's end and the progress."""
    return [
        raw(layout.moment(news["until"])) if "until" in news else None,
        raw(layout.ratio(news["progress"])) if "progress" in news else None,
    ]


def _rests(writes: Sequence[Write], after: Job) -> msgspec.Raw | list[msgspec.Raw]:
    if len(writes) == 1 or not any("result" in write.set for write in writes):
        return raw(layout.packed(layout.rest(after)))
    facts = layout.rest(_REPLACE(after, result=None))
    results = (write.set.get("result", write.job.result) for write in writes)
    return [raw(layout.with_result(facts, result)) for result in results]


def _drop_groups(jobs: Iterable[Job]) -> list[Group]:
    groups = []
    for _, run in groupby(jobs, key=_drops_alike):
        alike = list(run)
        numbers = b"".join([number_of(job.id) for job in alike])
        where = stand(alike[0])
        before = told(where, where[MARKS])
        before[KEY] = _keys(before, alike)
        groups.append([raw(numbers), raw(layout.guard(alike[0])), before])
    return groups


def _drops_alike(job: Job) -> tuple[Any, ...]:
    return (_alike(job), _line(job)) if job.state is QUEUED else (_alike(job),)


def _lanes(jobs: Sequence[Job]) -> Any:
    """In which lane they stand: one for all, or one for each or False."""
    if lane(jobs[0]) == FREE or len({job.key for job in jobs}) == 1:
        return lane(jobs[0])
    return [False if job.key is None else job.key for job in jobs]


def _keys(where: Stand, jobs: Sequence[Job]) -> Any:
    """Whose units they hold: one key for all, or one for each or False."""
    first = jobs[0].key
    if not where[UNITS] or len(jobs) == 1 or all(job.key == first for job in jobs):
        return where[KEY]
    return [False if job.key is None else job.key for job in jobs]


def _touch(touch: Touch) -> list[Any]:
    return [raw(number_of(touch.id)), raw(layout.token(touch.token)), *_signs(touch.set)]


def _tally(tally: Tally) -> list[Any]:
    return [raw(number_of(tally.parent_id)), int(tally.ended)]


def _note(note: NoteWrite) -> list[Any]:
    till = None if note.until is None else raw(layout.moment(note.until))
    return [note.key, raw_or_none(note.value), till, note.expect]


# -- results -------------------------------------------------------------------------------


def _misplaced(queue: bytes, anchor: bytes) -> Misplaced:
    return Misplaced(ok=False, queue=queue.decode(), anchor=anchor.decode())


def _each(changes: Sequence[Change], stale: bytes, reader: JobReader) -> list[Receipt]:
    if not stale:
        return [OK] * len(changes)
    moved_on = {reader.id_of(number) for number in layout.numbers_in(stale)}
    ids = [(c.writes[0].job if c.writes else c.deletes[0]).id for c in changes]
    return [Receipt(ok=False, stale=(job_id,)) if job_id in moved_on else OK for job_id in ids]


def _done(changes: Sequence[Change], result: Sequence[Any], reader: JobReader) -> list[Receipt]:
    _, first, parents = result
    told = tuple(reader.jobs(parents))
    receipts = []
    given = reader.first + first
    for change in changes:
        count = len(change.inserts)
        ids = tuple(range(given, given + count))
        receipts.append(Receipt(ids=ids, parents=told) if count or told else OK)
        given += count
    return receipts


def _refused(result: Sequence[Any], reader: JobReader) -> Receipt:
    _, stale, notes, twins = result
    others = [reader.id_of(number) if number else 0 for number in twins[1::2]]
    return Receipt(
        ok=False,
        stale=tuple(map(reader.id_of, layout.numbers_in(stale))),
        stale_notes=tuple(key.decode() for key in notes),
        twins=dict(zip(twins[::2], others, strict=True)),
    )


def claim_told(claim: Claim) -> list[Any]:
    """A claim as the server is told."""
    session = claim.session
    lease = (raw(layout.token(claim.token)), raw(layout.token(session)), hexadecimal(session))
    return [list(claim.queues), claim.limit, *lease, claim.visibility, claim.stands or False]
