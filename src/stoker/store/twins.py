"""Names that only one job may have: finding the twin before it is born."""

from __future__ import annotations

from collections.abc import Callable

from stoker.kernel.change import Change, applied
from stoker.kernel.job import LIVE, Job

Name = tuple[str, str]
"""("unique", key) or ("ref", reference)."""


def names_held(job: Job | None) -> list[Name]:
    """The names nobody else may have while this job has them."""
    if job is None or (job.unique_key is None and job.ref is None):
        return []
    held = []
    if job.unique_key is not None and job.state in LIVE:
        held.append(("unique", job.unique_key))
    if job.ref is not None:
        held.append(("ref", job.ref))
    return held


def find_twins(change: Change, holder: Callable[[Name], int | None]) -> dict[int, int]:
    """Which of a Change's jobs would be somebody's twin; `Receipt.twins` tells the form.

    Names that the Change itself sets free may be taken by it.
    """
    after: dict[int, Job | None] = {job.id: None for job in change.deletes}
    newcomers: list[tuple[int, Job]] = []
    for position, write in enumerate(change.writes):
        job = after[write.job.id] = applied(write.job, write)
        newcomers.append((-1 - position, job))
    newcomers += enumerate(change.inserts)
    taken: dict[Name, int] = {}
    twins: dict[int, int] = {}
    for position, job in newcomers:
        names = names_held(job)
        owners = [_owner(name, job.id, taken, after, holder) for name in names]
        twin = next((owner for owner in owners if owner is not None), None)
        if twin is None:
            taken.update(dict.fromkeys(names, job.id))
        else:
            twins[position] = twin
    return twins


def _owner(
    name: Name,
    job_id: int,
    taken: dict[Name, int],
    after: dict[int, Job | None],
    holder: Callable[[Name], int | None],
) -> int | None:
    """Who else has the name, if anybody."""
    if name in taken:
        return taken[name]
    known = holder(name)
    if known is None or known == job_id:
        return None
    return None if known in after and name not in names_held(after[known]) else known
