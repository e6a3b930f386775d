"""What may be done to a job from outside: enqueue, cancel, revive, edit, delete."""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.errors import BadInput, IllegalMove
from stoker.kernel import lifecycle
from stoker.kernel.change import Change, Write
from stoker.kernel.ending import ended, tally
from stoker.kernel.job import LIVE, WAITS_FOR_TICK, Job, State
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.repeat import first_due, overlaps, parse_repeat
from stoker.kernel.rules import fitted

_ALWAYS_EDITABLE = frozenset({"payload", "format", "meta", "policy"})
_PLACE = frozenset({"queue", "name", "rank", "due_at", "weight", "key", "unique_key"})
EDITABLE = _ALWAYS_EDITABLE | _PLACE


def enqueue(job: Job, *, now: int, due_at: int | None = None) -> Change:
    """A new job, due at the given time or as soon as its repeat and windows allow.

    A schedule whose runs may overlap never runs itself: it waits for its ticks and has a run
    of its own made for each.
    """
    repeat = None if job.policy.repeat is None else parse_repeat(job.policy.repeat)
    if due_at is None:
        due_at = now if repeat is None else first_due(repeat, now=now)
    job = msgspec.structs.replace(
        job, created_at=now, scheduled_at=due_at, due_at=fitted(job.policy, due_at)
    )
    if repeat is not None and overlaps(repeat):
        job = msgspec.structs.replace(
            job, state=State.WAITING, waits_for=WAITS_FOR_TICK, until=job.due_at
        )
    return Change(inserts=(job,))


def cancel(job: Job, *, now: int, settings: QueueSettings = DEFAULTS) -> Change:
    """Before it runs a job is cancelled at once; a running one is asked to stop."""
    if job.state is State.RUNNING:
        lifecycle.check("cancel", job, State.RUNNING)
        return Change(writes=(Write(job, {"cancel_requested": True}),))
    lifecycle.check("cancel", job, State.CANCELLED)
    return ended(job, State.CANCELLED, now=now, settings=settings)


def revive(job: Job, *, now: int) -> Change:
    """Run an ended job afresh. It comes back alone: its parent has counted it as done."""
    lifecycle.check("revive", job, State.QUEUED)
    fields: dict[str, Any] = {
        "state": State.QUEUED,
        "due_at": fitted(job.policy, now),
        "scheduled_at": now,
        "attempt": 0,
        "crashes": 0,
        "started_at": None,
        "ended_at": None,
        "until": None,
        "cancel_requested": False,
        "parent_id": None,
        "result": None,
    }
    return Change(writes=(Write(job, fields),))


def edit(job: Job, changes: dict[str, Any]) -> Change:
    """Change what a job is about; its payload at any time, its place only while it waits."""
    lifecycle.check("edit", job, job.state)
    unknown = changes.keys() - EDITABLE
    if unknown:
        raise BadInput(
            f"cannot edit {', '.join(sorted(unknown))}; editable: {', '.join(sorted(EDITABLE))}"
        )
    if job.state not in (State.QUEUED, State.WAITING) and changes.keys() & _PLACE:
        names = ", ".join(sorted(changes.keys() & _PLACE))
        raise IllegalMove(
            f"cannot change {names} of job {job.id}: it is {job.state.name}; "
            "these can change only before it runs"
        )
    return Change(writes=(Write(job, dict(changes)),))


def delete(job: Job) -> Change:
    """Remove all trace of a job that is not running."""
    lifecycle.check("delete", job)
    tallies = tally(job, State.CANCELLED) if job.state in LIVE else ()
    return Change(deletes=(job,), tallies=tallies)
