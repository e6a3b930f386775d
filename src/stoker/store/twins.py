"""Names that only one job may have: finding the twin before it is born."""

from __future__ import annotations

from collections.abc import Callable

from stoker.kernel.change import Change, applied
from stoker.kernel.job import LIVE, Job

Name = tuple[str, str]
"""("unique", key) or ("ref", reference)."""


def names_held(job: Job | None) -> list[Name]:
    """The names nobody else may have while this job has them."""
    if job is None:
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
        for name in names_held(job):
            if name in taken:
                twins[position] = taken[name]
                break
            known = holder(name)
            if known in after and name not in names_held(after[known]):
                known = None
            if known is not None and known != job.id:
                twins[position] = known
                break
            taken[name] = job.id
    return twins
