"""Families to try things with."""

from __future__ import annotations

from typing import Any

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from tests.store.conformance.acts import BROKEN, running

CHILD = Job("child")


def family_of(desk: Desk, count: int = 2, **facts: Any) -> tuple[Job, list[int]]:
    """A running parent and its held children."""
    parent = running(desk, "parent", **facts)
    return parent, desk.intake.spawn(parent, [CHILD] * count)


def waiting_family(desk: Desk, count: int = 2, **facts: Any) -> tuple[int, list[int]]:
    """A parent that has done its own part, and its queued children."""
    parent, children = family_of(desk, count, **facts)
    assert desk.report.finish(parent).state is State.WAITING
    return parent.id, children


def counts(job: Job) -> tuple[int, int, int, int]:
    """Children that are open, finished, failed and cancelled."""
    return (job.open_children, job.finished_children, job.failed_children, job.cancelled_children)


def end(desk: Desk, job: Job, how: str) -> None:
    """End a job that runs: finished, failed or cancelled."""
    if how == "finished":
        desk.report.finish(job)
    elif how == "failed":
        desk.report.fail(job, BROKEN)
    else:
        desk.control.cancel(job.id)
        desk.report.release(job)
