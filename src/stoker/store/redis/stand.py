"""Where a job stands: its queue's count, its line, and the indexes that lead to it.

A stand is told to the server as a list; `lua/commit.lua` says what is in it. Which index a job is
in, and why, is said here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.kernel.job import (
    FAILED,
    LIVE,
    QUEUED,
    RUNNING,
    WAITING,
    WAITS_FOR_CHILDREN,
    WAITS_FOR_PARENT,
    Job,
    load,
)
from stoker.store.redis.layout import number_of, raw, sortable, token

Mark = tuple[str, bytes, str]
Stand = list[Any]
UNITS, KEY, LANE, MARKS = 2, 3, 5, 6
_NONE = "0"
FREE = 0


def stand(job: Job) -> Stand:
    """Where the job stands."""
    units = load(job)
    queued = job.state is QUEUED
    return [
        job.queue,
        int(job.state),
        units,
        job.key if units else None,
        raw(place(job)) if queued else None,
        lane(job) if queued else None,
        [*_marks(job)],
    ]


def place(job: Job) -> bytes:
    """What decides about a job's turn, before its number does."""
    return sortable(job.rank) + sortable(job.due_at)


def lane(job: Job) -> str | int | None:
    """Jobs with a key queue up by key, jobs of weight 0 apart from those that wait for room."""
    return FREE if job.weight == 0 else job.key


def leases_of(session: int | None) -> str:
    """The index of what a session holds, or of what is held without one."""
    return "s:" + hexadecimal(session)


def hexadecimal(session: int | None) -> str:
    """How a session is called in keys."""
    return "" if session is None else f"{session:016x}"


def waiting_for(what: str) -> bytes:
    """What stands before the numbers of those who wait for something."""
    text = what.encode()
    return len(text).to_bytes(4, "big") + text


def moved(before: Stand, after: Stand) -> tuple[Stand, Stand]:
    """Both stands, without the marks they have in common."""
    gone = [mark for mark in before[MARKS] if mark not in after[MARKS]]
    come = [mark for mark in after[MARKS] if mark not in before[MARKS]]
    return told(before, gone), told(after, come)


def told(where: Stand, marks: Sequence[Mark]) -> Stand:
    """A stand as the server is told."""
    return [*where[:MARKS], [(index, raw(before), score) for index, before, score in marks]]


def _marks(job: Job) -> list[Mark]:
    marks: list[Mark] = []
    if job.state is RUNNING:
        marks.append((leases_of(job.session), b"", "inf" if job.until is None else str(job.until)))
        if job.cancel_requested and job.session is not None:
            marks.append(("x", token(job.session), _NONE))
    elif job.state is WAITING:
        marks += _waiting_marks(job)
    elif job.state is not QUEUED:
        if job.until is not None:
            marks.append(("kept", b"", str(job.until)))
        if job.state is FAILED:
            marks.append(("failed", b"", _NONE))
    if job.policy.repeat is not None and job.state in LIVE:
        marks.append(("repeating", b"", _NONE))
    if job.parent_id is not None:
        marks.append(("kids", number_of(job.parent_id), _NONE))
    return marks


def _waiting_marks(job: Job) -> list[Mark]:
    marks: list[Mark] = [("w", waiting_for(job.waits_for or ""), _NONE)]
    if job.until is not None:
        marks.append(("until", b"", str(job.until)))
    if job.waits_for == WAITS_FOR_PARENT and job.parent_id is not None:
        marks.append(("held", number_of(job.parent_id), _NONE))
    if job.waits_for == WAITS_FOR_CHILDREN and job.open_children == 0:
        marks.append(("childless", b"", _NONE))
    return marks
