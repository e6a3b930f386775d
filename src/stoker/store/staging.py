"""Changes on copies of jobs: may they be made, and what do tallies make of parents?"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from stoker.kernel.change import Change, Tally
from stoker.kernel.job import Job, State
from stoker.store import Receipt

_COUNTED = {
    State.FINISHED: "finished_children",
    State.FAILED: "failed_children",
    State.CANCELLED: "cancelled_children",
}


def refusal(
    change: Change, jobs: Mapping[int, Job], note_revision: Callable[[str], int]
) -> Receipt | None:
    """The receipt for a Change of which some job or note has moved on; None if none has."""
    decided_on = [*(write.job for write in change.writes), *change.deletes]
    stale = [job.id for job in decided_on if not _unmoved(job, jobs.get(job.id))]
    for touch in change.touches:
        now = jobs.get(touch.id)
        if now is None or now.token != touch.token:
            stale.append(touch.id)
    notes = [n.key for n in change.notes if n.expect not in (None, note_revision(n.key))]
    if stale or notes:
        return Receipt(ok=False, stale=tuple(stale), stale_notes=tuple(notes))
    return None


def _unmoved(copy: Job, now: Job | None) -> bool:
    return now is not None and (now.revision, now.token) == (copy.revision, copy.token)


def tell_parents(
    tallies: tuple[Tally, ...], staged: dict[int, Job | None], jobs: Mapping[int, Job]
) -> tuple[Job, ...]:
    """Count the ends of children in `staged`, where it has their parents or not yet; gives those
    parents that were told."""
    told: dict[int, Job] = {}
    for tally in tallies:
        parent = staged.get(tally.parent_id, jobs.get(tally.parent_id))
        if parent is None:
            continue
        field = _COUNTED[tally.ended]
        counts = {"open_children": parent.open_children - 1, field: getattr(parent, field) + 1}
        after = msgspec.structs.replace(parent, revision=parent.revision + 1, **counts)
        staged[parent.id] = told[parent.id] = after
    return tuple(told.values())
