"""What may be done to a job from outside: enqueue, cancel, revive, edit, delete."""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.errors import BadInput, IllegalMove
from stoker.kernel import answers, lifecycle
from stoker.kernel.change import Change, Write
from stoker.kernel.ending import ended, tally
from stoker.kernel.facts import check, check_new
from stoker.kernel.flow import ANEW, is_flow
from stoker.kernel.job import LIVE, WAITS_FOR_TICK, Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.repeat import first_due, overlaps, parse_repeat
from stoker.kernel.rules import fitted

_REPLACE = msgspec.structs.replace
_ALWAYS_EDITABLE = frozenset({"payload", "format", "meta", "policy"})
_PLACE = frozenset({"queue", "name", "rank", "due_at", "weight", "key", "unique_key"})
EDITABLE = _ALWAYS_EDITABLE | _PLACE


def enqueue(job: Job, *, now: int, due_at: int | None = None) -> Change:
    """A new job, as `draft` makes it."""
    return Change(inserts=(draft(job, now=now, due_at=due_at),))


def draft(job: Job, *, now: int, due_at: int | None = None) -> Job:
    """A new job, due at the given time or as soon as its repeat and windows allow.

    A schedule whose runs may overlap never runs itself: it waits for its ticks and has a run
    of its own made for each.
    """
    check_new(job)
    policy = job.policy
    if policy.repeat is None:
        at = now if due_at is None else due_at
        return _REPLACE(job, created_at=now, scheduled_at=at, due_at=fitted(policy, at))
    at = first_due(parse_repeat(policy.repeat), now=now) if due_at is None else due_at
    return _REPLACE(job, created_at=now, scheduled_at=at, **_seat(policy, at))


def _seat(policy: Policy, due_at: int) -> dict[str, Any]:
    """Where a job that may run from `due_at` on waits for its turn."""
    at = fitted(policy, due_at)
    if policy.repeat is not None and overlaps(parse_repeat(policy.repeat)):
        return {"state": State.WAITING, "waits_for": WAITS_FOR_TICK, "due_at": at, "until": at}
    return {"state": State.QUEUED, "waits_for": None, "due_at": at, "until": None}


def cancel(job: Job, *, now: int, settings: QueueSettings = DEFAULTS) -> Change:
    """Before it runs a job is cancelled at once; a running one is asked to stop."""
    if job.state is State.RUNNING:
        lifecycle.check("cancel", job, State.RUNNING)
        return Change(writes=(Write(job, {"cancel_requested": True}),))
    lifecycle.check("cancel", job, State.CANCELLED)
    over = answers.unanswered(job, now=now)
    return ended(job, State.CANCELLED, now=now, settings=settings) | over


def revive(job: Job, *, now: int) -> Change:
    """Run an ended job afresh. It comes back alone: its parent has counted it as done. A chain
    goes on with the step that did not finish."""
    fields: dict[str, Any] = {
        **(ANEW if is_flow(job) else _seat(job.policy, now)),
        "scheduled_at": now,
        "attempt": 0,
        "crashes": 0,
        "started_at": None,
        "ended_at": None,
        "cancel_requested": False,
        "parent_id": None,
        "result": None,
    }
    if job.reply is not None:
        fields["reply"] = None  # it asks anew
    lifecycle.check("revive", job, fields["state"])
    return Change(writes=(Write(job, fields),))


def edit(job: Job, changes: dict[str, Any]) -> Change:
    """Change what a job is about; its payload at any time, its place only while it waits.

    Another repeat that comes with a time of its own counts from that time on, and not from the
    run that the old one had meant.
    """
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
    check(changes)
    fields = dict(changes)
    if changes.keys() & {"policy", "due_at"} and _takes_a_seat(job):
        policy, due_at = changes.get("policy", job.policy), changes.get("due_at", job.due_at)
        fields |= _seat(policy, due_at)
        if "due_at" in changes and policy.repeat != job.policy.repeat:
            fields["scheduled_at"] = due_at
    lifecycle.check("edit", job, fields.get("state", job.state))
    return Change(writes=(Write(job, fields),))


def _takes_a_seat(job: Job) -> bool:
    return job.state is State.QUEUED or job.waits_for == WAITS_FOR_TICK


def rename(job: Job, unique_key: str) -> Change:
    """Another unique key for a job that runs: what it is about was only found out by it."""
    lifecycle.check("touch", job, State.RUNNING)
    check({"unique_key": unique_key})
    return Change(writes=(Write(job, {"unique_key": unique_key}),))


def delete(job: Job) -> Change:
    """Remove all trace of a job that is not running."""
    lifecycle.check("delete", job)
    tallies = tally(job, State.CANCELLED) if job.state in LIVE else ()
    return Change(deletes=(job,), tallies=tallies)
