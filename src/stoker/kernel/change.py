"""A decision, before anybody carried it out.

Rules return Changes, stores commit them: whole or not at all. A write carries the copy of the
job on which it was decided; that copy's revision and lease token are the guard. When the guard
fails nothing has happened and the decision has to be made again, on a fresh copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import msgspec

from stoker.kernel.job import Job, State
from stoker.kernel.queue import QueueSettings

_REPLACE = msgspec.structs.replace


class Write(msgspec.Struct, frozen=True, gc=False):
    """Set fields of the job it was decided on; its revision goes up by one."""

    job: Job
    set: Mapping[str, Any]


class Touch(msgspec.Struct, frozen=True, gc=False):
    """A sign of life: moves the lease's end or the progress, and is no new revision.

    Guarded by the token alone, so that it never makes the worker's own next decision stale.
    """

    id: int
    token: int
    set: Mapping[str, Any]


class Tally(msgspec.Struct, frozen=True, gc=False):
    """Tell the parent that a child has ended. A parent that is gone needs no telling."""

    parent_id: int
    ended: State


class Note(msgspec.Struct, frozen=True, gc=False):
    """A small named value beside the jobs: kept replies, a throttler's state ..."""

    key: str
    value: bytes
    until: int | None = None
    revision: int = 1


class NoteWrite(msgspec.Struct, frozen=True, gc=False):
    """Put a note, or forget it (value None). `expect` guards it: 0 means "only if absent"."""

    key: str
    value: bytes | None
    until: int | None = None
    expect: int | None = None


class Copies(Sequence[Job]):
    """New jobs that differ in their payloads alone: an engine may take them in as one.

    To everybody else they are a sequence of jobs like any other. They have no names of their own.

    >>> [job.payload for job in Copies(Job("mail"), [b"1", b"2"])]
    [b'1', b'2']
    """

    __slots__ = ("payloads", "template")

    def __init__(self, template: Job, payloads: Sequence[bytes]) -> None:
        self.template = template
        self.payloads = payloads

    def __len__(self) -> int:
        return len(self.payloads)

    def __iter__(self) -> Iterator[Job]:
        return (_REPLACE(self.template, payload=payload) for payload in self.payloads)

    @overload
    def __getitem__(self, place: int) -> Job: ...

    @overload
    def __getitem__(self, place: slice) -> Copies: ...

    def __getitem__(self, place: int | slice) -> Job | Copies:
        if isinstance(place, slice):
            return Copies(self.template, self.payloads[place])
        return _REPLACE(self.template, payload=self.payloads[place])


def kinds(jobs: Sequence[Job]) -> Sequence[Job]:
    """The same jobs, as far as they differ in more than their payloads."""
    return (jobs.template,) if type(jobs) is Copies else jobs


class Change(msgspec.Struct, frozen=True, gc=False):
    """Everything one decision wants done: committed whole or not at all."""

    inserts: Sequence[Job] = ()
    writes: tuple[Write, ...] = ()
    touches: tuple[Touch, ...] = ()
    tallies: tuple[Tally, ...] = ()
    deletes: tuple[Job, ...] = ()
    queues: tuple[tuple[str, QueueSettings], ...] = ()
    notes: tuple[NoteWrite, ...] = ()
    rings: tuple[str, ...] = ()
    """What is to be rung out besides the queues that got a job to run."""
    last: tuple[Job, ...] = ()
    """How jobs ended of which nothing is kept: for whoever is told of it, not for the store."""

    def __or__(self, other: Change) -> Change:
        return Change(
            (*self.inserts, *other.inserts),
            self.writes + other.writes,
            self.touches + other.touches,
            self.tallies + other.tallies,
            self.deletes + other.deletes,
            self.queues + other.queues,
            self.notes + other.notes,
            self.rings + other.rings,
            self.last + other.last,
        )


NOTHING = Change()


def applied(job: Job, write: Write) -> Job:
    """The job after the write, if the write's guard held."""
    return _REPLACE(job, revision=job.revision + 1, **write.set)
