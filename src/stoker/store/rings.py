"""Whom a committed Change concerns: the names to ring for."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.kernel.change import Change, kinds
from stoker.kernel.job import QUEUED


def session_ring(session: int) -> str:
    """The ring for a worker that is to look at its cancel requests."""
    return f"!{session}"


def errand_ring(session: int) -> str:
    """The ring for a worker for which a job was started by whoever brought it."""
    return f"+{session}"


def rings_of(changes: Iterable[Change]) -> set[str]:
    """Queues that got a job to run, now or later, sessions asked to cancel one, and whatever else
    a Change wants rung."""
    rung: set[str] = set()
    for change in changes:
        for job in kinds(change.inserts):
            if job.state is QUEUED:
                rung.add(job.queue)
        for write in change.writes:
            if write.set.get("state", write.job.state) is QUEUED:
                rung.add(write.set.get("queue", write.job.queue))
            elif "cancel_requested" in write.set and write.job.session is not None:
                rung.add(session_ring(write.job.session))
        for name, _ in change.queues:
            rung.add(name)
        rung.update(change.rings)
    return rung
