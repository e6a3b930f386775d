"""Rouse: family members whose waiting is over though nobody told them."""

from __future__ import annotations

from stoker.desk.clerk import Clerk
from stoker.kernel import family
from stoker.kernel.job import WAITS_FOR_CHILDREN
from stoker.store import Adrift


def rouse(clerk: Clerk) -> int:
    """Make good the consequences that a crash between two commits left undone."""
    adrift = clerk.store.find(Adrift())
    parents = clerk.store.get([job.parent_id for job in adrift if job.parent_id is not None])
    now = clerk.store.now()
    unheld = [
        family.unhold(
            job, parents.get(job.parent_id or 0), now=now, settings=clerk.settings(job.queue)
        )
        for job in adrift
        if job.waits_for != WAITS_FOR_CHILDREN
    ]
    moved = sum(receipt.ok for receipt in clerk.attempt(unheld))
    return moved + clerk.resume(job for job in adrift if job.waits_for == WAITS_FOR_CHILDREN)
