"""How a job ends: kept for a while or gone at once, and its parent told."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from stoker.kernel.change import Change, Tally, Write, applied
from stoker.kernel.job import Job, State
from stoker.kernel.queue import QueueSettings

PARENT_GRACE = 3600 * 1_000_000
"""How much longer an ended child is kept, each time its parent is found alive."""

NO_LEASE: dict[str, Any] = {"token": None, "session": None, "until": None}


def ended(job: Job, state: State, *, now: int, settings: QueueSettings, **news: Any) -> Change:
    """The job reaches a final state; it or its queue's settings say how long it is kept there."""
    kept_for = (job.policy.retention or settings.retention).of(state)
    tallies = tally(job, state)
    fields = last_facts(state, now, kept_for)
    if job.waits_for is not None:
        news["waits_for"] = None
    if job.undecided:
        news["undecided"] = False
    write = Write(job, {**fields, **news} if news else fields)
    if kept_for == 0:
        return Change(deletes=(job,), tallies=tallies, last=(applied(job, write),))
    return Change(writes=(write,), tallies=tallies)


@lru_cache(maxsize=64)
def last_facts(state: State, now: int, kept_for: int | None) -> dict[str, Any]:
    """What all jobs that end so at this moment have in common. Shared, hence never changed."""
    until = None if kept_for is None else now + kept_for
    return {**NO_LEASE, "until": until, "state": state, "ended_at": now}


def forget(job: Job, parent: Job | None, *, now: int) -> Change:
    """An ended job has been kept long enough; but a parent that lives may still want to see it."""
    if parent is not None and not parent.ended:
        return Change(writes=(Write(job, {"until": now + PARENT_GRACE}),))
    return Change(deletes=(job,))


def tally(job: Job, state: State) -> tuple[Tally, ...]:
    """Tell the parent, if there is one."""
    return () if job.parent_id is None else (Tally(job.parent_id, state),)
