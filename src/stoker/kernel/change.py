"""A decision, before anybody carried it out.

Rules return Changes, stores commit them: whole or not at all. A write carries the copy of the
job on which it was decided; that copy's revision and lease token are the guard. When the guard
fails nothing has happened and the decision has to be made again, on a fresh copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stoker.kernel.job import Job, State
from stoker.kernel.queue import QueueSettings


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


class Change(msgspec.Struct, frozen=True, gc=False):
    """Everything one decision wants done: committed whole or not at all."""

    inserts: tuple[Job, ...] = ()
    writes: tuple[Write, ...] = ()
    touches: tuple[Touch, ...] = ()
    tallies: tuple[Tally, ...] = ()
    deletes: tuple[Job, ...] = ()
    queues: tuple[tuple[str, QueueSettings], ...] = ()
    notes: tuple[NoteWrite, ...] = ()

    def __or__(self, other: Change) -> Change:
        return Change(
            self.inserts + other.inserts,
            self.writes + other.writes,
            self.touches + other.touches,
            self.tallies + other.tallies,
            self.deletes + other.deletes,
            self.queues + other.queues,
            self.notes + other.notes,
        )


NOTHING = Change()


def applied(job: Job, write: Write) -> Job:
    """The job after the write, if the write's guard held."""
    return msgspec.structs.replace(job, revision=job.revision + 1, **write.set)
