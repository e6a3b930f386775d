"""The memory store: the executable meaning of every verb.

Every engine must agree with it after every step of every random life. It forgets everything
when the process ends, so it is for tests and for trying things out.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from stoker.kernel import rules
from stoker.kernel.change import Change, Note, applied
from stoker.kernel.glob import glob_matches
from stoker.kernel.job import (
    STATES,
    WAITS_FOR_CHILDREN,
    WAITS_FOR_PARENT,
    Job,
    State,
    load,
    partition_of,
)
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.store import (
    MOST_AT_ONCE,
    OK,
    Adrift,
    Answer,
    Beat,
    Claim,
    Filter,
    Forgettable,
    InLine,
    Lost,
    Query,
    QueueView,
    Receipt,
    Session,
)
from stoker.store.bell import LocalBell
from stoker.store.choosing import Spot, choose, ordering
from stoker.store.clock import Clock, wall_clock
from stoker.store.filtering import matches
from stoker.store.forks import heed_forks
from stoker.store.meters import Meters
from stoker.store.rings import rings_of
from stoker.store.seal import SEAL, check_seal
from stoker.store.staging import refusal, tell_parents
from stoker.store.standing import lets_start_at_once, newcomer_of, started_for
from stoker.store.twins import Name, find_twins, names_held

_REPLACE = msgspec.structs.replace


class MemoryStore:
    """Jobs in dictionaries, behind one lock."""

    abreast = 1
    portion = MOST_AT_ONCE

    def __init__(self, clock: Clock = wall_clock) -> None:
        self.now = clock
        self.bell = LocalBell()
        self._lock = threading.RLock()
        heed_forks(self)
        self._last_id = 0
        self._jobs: dict[int, Job] = {}
        self._settings: dict[str, QueueSettings] = {}
        self._order: dict[str, list[tuple[int, int, int]]] = {}
        self._counts: Counter[tuple[str, State]] = Counter()
        self._meters = Meters(self._settings)
        self._names: dict[Name, int] = {}
        self._eased: set[str] = set()
        self._notes: dict[str, Note] = {}
        self._sessions: dict[int, Session] = {}
        self._locks: dict[str, tuple[str, int]] = {}
        self._standing: dict[int, Claim] = {}

    def before_fork(self) -> None:
        """Nothing has to be put away."""

    def after_fork(self, *, in_child: bool) -> None:
        """The child has a copy, and a lock, of its own."""
        if in_child:
            self._lock = threading.RLock()

    # -- committing ------------------------------------------------------------------------

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        with self._lock:
            seal = self._notes.get(SEAL)
            if seal is not None:
                check_seal(seal.value, changes)
            errand = self._errand(changes, claims)
            if errand is not None:
                changes = [Change(inserts=(errand,))]
            receipts = [self._commit(change) for change in changes]
            eased, self._eased = self._eased, set()
            grants = [self._claim(claim) if seal is None else [] for claim in claims]
            for claim, grant in zip(claims, grants, strict=True):
                self._leave_standing(claim, grant)
        if errand is not None:
            self.bell.bring(_REPLACE(errand, id=receipts[0].ids[0]))
        done = [c for c, receipt in zip(changes, receipts, strict=True) if receipt.ok]
        rung = rings_of(done) | eased
        if rung:
            self.bell.ring(rung)
        return Answer(receipts, grants)

    def adopt(self, jobs: Sequence[Job]) -> None:
        with self._lock:
            for job in jobs:
                named = [self._names.get(name) for name in names_held(job)]
                for holder in {job_id for job_id in named if job_id not in (None, job.id)}:
                    self._put(self._jobs[holder], None)
                self._put(self._jobs.get(job.id), job)
                if not partition_of(job.id):
                    self._last_id = max(self._last_id, job.id)

    def _commit(self, change: Change) -> Receipt:
        refused = refusal(change, self._jobs, self._note_revision)
        if refused is not None:
            return refused
        staged: dict[int, Job | None] = {job.id: None for job in change.deletes}
        for write in change.writes:
            staged[write.job.id] = applied(self._jobs[write.job.id], write)
        for touch in change.touches:
            staged[touch.id] = _REPLACE(self._jobs[touch.id], **touch.set)
        ids = tuple(range(self._last_id + 1, self._last_id + 1 + len(change.inserts)))
        for job_id, job in zip(ids, change.inserts, strict=True):
            staged[job_id] = _REPLACE(job, id=job_id)
        twins = find_twins(change, self._names.get)
        if twins:
            return Receipt(ok=False, twins=twins)
        parents = tell_parents(change.tallies, staged, self._jobs)
        self._apply(change, staged)
        self._last_id += len(ids)
        return Receipt(ids=ids, parents=parents) if ids or parents else OK

    def _apply(self, change: Change, staged: dict[int, Job | None]) -> None:
        for name, settings in change.queues:
            self._configure(name, settings)
        for job_id, job in staged.items():
            self._put(self._jobs.get(job_id), job)
        for note in change.notes:
            if note.value is None:
                self._notes.pop(note.key, None)
            else:
                revision = self._note_revision(note.key) + 1
                self._notes[note.key] = Note(note.key, note.value, note.until, revision)

    def _put(self, old: Job | None, new: Job | None) -> None:
        for job, step in ((old, -1), (new, 1)):
            if job is None:
                continue
            self._counts[job.queue, job.state] += step
            self._meters.enter(job, step)
        if old is not None:
            if load(old):
                self._eased |= self._meters.eased(old.queue)
            del self._jobs[old.id]
            self._names_off(old)
        if new is not None:
            self._jobs[new.id] = new
            self._names_on(new)

    def _names_off(self, job: Job) -> None:
        for name in names_held(job):
            del self._names[name]
        if job.state is State.QUEUED:
            line = self._order[job.queue]
            del line[bisect_left(line, self._order_key(job))]

    def _names_on(self, job: Job) -> None:
        for name in names_held(job):
            self._names[name] = job.id
        self._settings.setdefault(job.queue, DEFAULTS)
        if job.state is State.QUEUED:
            insort(self._order.setdefault(job.queue, []), self._order_key(job))

    def _configure(self, name: str, settings: QueueSettings) -> None:
        self._settings[name] = settings
        queued = [self._jobs[key[2]] for key in self._order.get(name, [])]
        self._order[name] = sorted(self._order_key(job) for job in queued)

    def _order_key(self, job: Job) -> tuple[int, int, int]:
        return ordering(self._settings[job.queue])(job)

    def _note_revision(self, key: str) -> int:
        note = self._notes.get(key)
        return 0 if note is None or self._out_of_date(note) else note.revision

    def _out_of_date(self, note: Note) -> bool:
        return note.until is not None and note.until <= self.now()

    # -- claiming --------------------------------------------------------------------------

    def _claim(self, claim: Claim) -> list[Job] | None:
        now = self.now()
        if claim.session is not None and not self._alive(claim.session, now):
            return None
        if not claim.limit:
            return []
        entrances = self._meters.entrances(now)
        lines = [entrances.line(q, self._due(q, now)) for q in dict.fromkeys(claim.queues)]
        chosen = choose(lines, claim.limit)
        entrances.close()
        taken = []
        for job in chosen:
            started = rules.start(
                job,
                now=now,
                token=claim.token,
                session=claim.session,
                visibility=claim.visibility,
            )
            self._put(job, started)
            taken.append(started)
        return taken

    def _leave_standing(self, claim: Claim, grant: list[Job] | None) -> None:
        if claim.session is not None:
            self._standing.pop(claim.session, None)
            if claim.stands is not None and grant == []:
                self._standing[claim.session] = claim

    def _errand(self, changes: Sequence[Change], claims: Sequence[Claim]) -> Job | None:
        """A new job as somebody runs it who stands in wait for one; the last to come goes first."""
        now = self.now()
        job = newcomer_of(changes, claims, now)
        if job is None or not self._may_start_at_once(job.queue, now):
            return None
        for session, claim in reversed(self._standing.items()):
            if job.queue in claim.queues and self._alive(session, now):
                del self._standing[session]
                return started_for(claim, job, now)
        return None

    def _may_start_at_once(self, queue: str, now: int) -> bool:
        settings = self._settings.get(queue, DEFAULTS)
        return lets_start_at_once(settings) and next(self._due(queue, now), None) is None

    def _due(self, queue: str, now: int) -> Iterator[Job]:
        """The queue's due jobs in its order."""
        jobs = (self._jobs[key[2]] for key in self._order.get(queue, ()))
        return (job for job in jobs if job.due_at <= now)

    # -- looking ---------------------------------------------------------------------------

    def get(self, ids: Iterable[int]) -> dict[int, Job]:
        with self._lock:
            return {job_id: self._jobs[job_id] for job_id in ids if job_id in self._jobs}

    def find(self, query: Query) -> list[Job]:
        with self._lock:
            now = self.now()
            if isinstance(query, InLine):
                return list(islice(self._in_line(query, now), query.limit))
            jobs = sorted(self._jobs.values(), key=lambda job: job.id)
            if isinstance(query, Filter):
                if query.newest_first:
                    jobs.reverse()
                found = (job for job in jobs if matches(job, query))
            elif isinstance(query, Lost):
                found = (job for job in jobs if self._is_lost(job, now))
            elif isinstance(query, Adrift):
                found = (job for job in jobs if self._is_adrift(job))
            else:
                assert isinstance(query, Forgettable)
                found = (job for job in jobs if _is_forgettable(job, now))
            return list(islice(found, query.limit))

    def _in_line(self, query: InLine, now: int) -> Iterator[Job]:
        due = self._due(query.queue, now)
        if query.after is None:
            return due
        order = ordering(self._settings.get(query.queue, DEFAULTS))
        after = order(Spot(*query.after))
        return (job for job in due if order(job) > after)

    def _is_lost(self, job: Job, now: int) -> bool:
        if job.state is State.RUNNING:
            dead = job.session is not None and not self._alive(job.session, now)
            return dead or _is_past(job.until, now)
        return job.state is State.WAITING and _is_past(job.until, now)

    def _is_adrift(self, job: Job) -> bool:
        if job.waits_for == WAITS_FOR_CHILDREN:
            return job.open_children == 0
        if job.waits_for != WAITS_FOR_PARENT:
            return False
        parent = self._jobs.get(job.parent_id or 0)
        return parent is None or parent.ended or parent.waits_for == WAITS_FOR_CHILDREN

    def survey(self, names: Sequence[str] | None = None) -> list[QueueView]:
        with self._lock:
            wanted = self._settings.keys() if names is None else self._settings.keys() & set(names)
            return [
                QueueView(
                    name,
                    self._settings[name],
                    {state: self._counts[name, state] for state in STATES},
                    self._meters.held(name),
                )
                for name in sorted(wanted)
            ]

    def names(self, pattern: str) -> list[str]:
        with self._lock:
            return sorted(n for n, line in self._order.items() if line and glob_matches(pattern, n))

    def next_due(self, queues: Sequence[str], after: int | None = None) -> int | None:
        with self._lock:
            moment = self.now() if after is None else after
            keys = (key for queue in queues for key in self._order.get(queue, ()))
            dues = [self._jobs[key[2]].due_at for key in keys]
            dues += [at for at in map(self._meters.opening, queues) if at is not None]
            return min((due for due in dues if due > moment), default=None)

    def flows(self, queue: str, meters: Sequence[str]) -> dict[str, str]:
        with self._lock:
            found = ((meter, self._meters.flow(queue, meter)) for meter in meters)
            return {meter: state for meter, state in found if state}

    def notes(self, keys: Sequence[str] | None = None) -> dict[str, Note]:
        with self._lock:
            found = (self._notes.get(key) for key in (self._notes if keys is None else keys))
            return {note.key: note for note in found if note and not self._out_of_date(note)}

    # -- workers ---------------------------------------------------------------------------

    def enrol(self, session: Session, ttl: int) -> None:
        with self._lock:
            now = self.now()
            self._sessions[session.id] = _REPLACE(session, started_at=now, expires_at=now + ttl)

    def beat(self, session: int, ttl: int, *, watch: bool = False) -> Beat:
        with self._lock:
            now = self.now()
            if not self._alive(session, now):
                return Beat(alive=False)
            self._sessions[session] = _REPLACE(self._sessions[session], expires_at=now + ttl)
            held = (j for j in self._jobs.values() if j.session == session and j.cancel_requested)
            cancelled = tuple(sorted(job.id for job in held))
            return Beat(alive=True, cancelled=cancelled, troubled=watch and self.troubled())

    def retire(self, session: int) -> None:
        with self._lock:
            self._sessions.pop(session, None)
            self._standing.pop(session, None)

    def sessions(self) -> list[Session]:
        with self._lock:
            return sorted(self._sessions.values(), key=lambda session: session.id)

    def troubled(self) -> bool:
        with self._lock:
            now = self.now()
            return any(session.expires_at <= now for session in self._sessions.values()) or any(
                self._is_lost(job, now) or self._is_adrift(job) or _is_forgettable(job, now)
                for job in self._jobs.values()
            )

    def _alive(self, session: int, now: int) -> bool:
        known = self._sessions.get(session)
        return known is not None and known.expires_at > now

    def hold(self, name: str, owner: str, ttl: int) -> bool:
        with self._lock:
            now = self.now()
            holder, until = self._locks.get(name, (owner, 0))
            if holder != owner and until > now:
                return False
            self._locks[name] = (owner, now + ttl if ttl else 0)
            return True

    def tidy(self) -> None:
        with self._lock:
            for name in [n for n, settings in self._settings.items() if settings == DEFAULTS]:
                if not any(self._counts[name, state] for state in STATES):
                    del self._settings[name]
                    self._order.pop(name, None)
            self._notes = {k: n for k, n in self._notes.items() if not self._out_of_date(n)}
            self._meters.tidy(self.now())

    def close(self) -> None:
        """Nothing to let go of."""


def _is_forgettable(job: Job, now: int) -> bool:
    return job.ended and _is_past(job.until, now)


def _is_past(moment: int | None, now: int) -> bool:
    return moment is not None and moment <= now
