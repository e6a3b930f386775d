"""The long way: changes of any shape, each whole or not at all, inside one transaction.

What the changes touch is read and locked first; then they are applied to those copies, one after
the other, as the memory store would do it; what has become of the copies is written in the end.
So a batch costs a few round trips, whatever is in it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stoker.kernel.change import Change, NoteWrite, applied, kinds
from stoker.kernel.job import Job, load
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.store import OK, Receipt
from stoker.store.staging import refusal, tell_parents
from stoker.store.twins import Name, find_twins, names_held

_REPLACE = msgspec.structs.replace


class Stage:
    """Copies of what changes touch, and what has become of them so far.

    New jobs have numbers below zero until they are written.
    """

    def __init__(self) -> None:
        self.before: dict[int, Job] = {}
        self.jobs: dict[int, Job] = {}
        self.payloads: dict[int, bytes] = {}
        """As they were, where they are known; copies are read without them."""
        self.names: dict[Name, int] = {}
        self.settings: dict[str, QueueSettings] = {}
        self.notes: dict[str, int] = {}
        """Revisions; 0 if a note is out of date."""
        self.notes_there: set[str] = set()
        self.note_writes: dict[str, NoteWrite] = {}
        self.configured: dict[str, QueueSettings] = {}
        self.eased: set[str] = set()
        self._last_new = 0

    def commit(self, change: Change) -> Receipt:
        """Apply a change, if every part of it can be."""
        refused = refusal(change, self.jobs, lambda key: self.notes.get(key, 0))
        if refused is not None:
            return refused
        twins = find_twins(change, self.names.get)
        if twins:
            return Receipt(ok=False, twins=twins)
        staged: dict[int, Job | None] = {job.id: None for job in change.deletes}
        for write in change.writes:
            job_id = write.job.id
            staged[job_id] = applied(self._whole(self.jobs[job_id], write.job), write)
        for touch in change.touches:
            staged[touch.id] = _REPLACE(self.jobs[touch.id], **touch.set)
        first, self._last_new = self._last_new - 1, self._last_new - len(change.inserts)
        ids = tuple(range(first, self._last_new - 1, -1))
        for job_id, job in zip(ids, change.inserts, strict=True):
            staged[job_id] = _REPLACE(job, id=job_id)
        parents = tell_parents(change.tallies, staged, self.jobs)
        self._apply(change, staged)
        return Receipt(ids=ids, parents=parents) if ids or parents else OK

    def _whole(self, now: Job, copy: Job) -> Job:
        """Whoever wrote about a job had its payload, and it has not changed since."""
        if now.id in self.payloads:
            return now
        self.payloads[now.id] = copy.payload
        return _REPLACE(now, payload=copy.payload)

    def _apply(self, change: Change, staged: dict[int, Job | None]) -> None:
        for name, settings in change.queues:
            self.settings[name] = self.configured[name] = settings
        for job_id, job in staged.items():
            self._put(self.jobs.get(job_id), job)
        for note in change.notes:
            self.note_writes[note.key] = note
            self.notes[note.key] = 0 if note.value is None else self.notes.get(note.key, 0) + 1

    def _put(self, old: Job | None, new: Job | None) -> None:
        if old is not None:
            if load(old) and self.settings_of(old.queue).waits_for_room:
                self.eased.add(old.queue)
            del self.jobs[old.id]
            for name in names_held(old):
                if self.names.get(name) == old.id:
                    del self.names[name]
        if new is not None:
            self.jobs[new.id] = new
            for name in names_held(new):
                self.names[name] = new.id

    def settings_of(self, queue: str) -> QueueSettings:
        """The settings of a queue at this point."""
        return self.settings.get(queue, DEFAULTS)


def touched(changes: Iterable[Change]) -> set[int]:
    """The ids of all jobs that changes decide about or tell something."""
    ids: set[int] = set()
    for change in changes:
        ids.update(write.job.id for write in change.writes)
        ids.update(job.id for job in change.deletes)
        ids.update(touch.id for touch in change.touches)
        ids.update(tally.parent_id for tally in change.tallies)
    return ids


def queues_of(changes: Iterable[Change]) -> set[str]:
    """The queues that changes speak of."""
    names: set[str] = set()
    for change in changes:
        names.update(job.queue for job in (*kinds(change.inserts), *change.deletes))
        names.update(write.job.queue for write in change.writes)
        names.update(write.set.get("queue", write.job.queue) for write in change.writes)
        names.update(name for name, _ in change.queues)
    return names


def names_wanted(changes: Iterable[Change]) -> set[Name]:
    """The names that somebody will have when the changes are made."""
    wanted: set[Name] = set()
    for change in changes:
        written = [applied(write.job, write) for write in change.writes]
        for job in (*kinds(change.inserts), *written):
            wanted.update(names_held(job))
    return wanted
