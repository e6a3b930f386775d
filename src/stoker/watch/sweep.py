"""Sweep: ended jobs that have been kept long enough, and the store's own litter."""

from __future__ import annotations

from stoker.desk.clerk import Clerk
from stoker.kernel.ending import forget
from stoker.store import Forgettable


def sweep(clerk: Clerk) -> int:
    """Forget a page of old jobs; tidy up when there are none left."""
    old = clerk.store.find(Forgettable())
    parents = clerk.store.get([job.parent_id for job in old if job.parent_id is not None])
    now = clerk.store.now()
    changes = [forget(job, parents.get(job.parent_id or 0), now=now) for job in old]
    moved = sum(receipt.ok for receipt in clerk.attempt(changes))
    if not moved:
        clerk.store.tidy()
    return moved
