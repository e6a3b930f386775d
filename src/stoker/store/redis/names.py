"""Names that only one job may have, as the server keeps them: in many small hashes."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from stoker.kernel.change import Change, applied, kinds
from stoker.kernel.job import Job
from stoker.store.redis.layout import number_of, raw
from stoker.store.twins import Name, names_held

_BUCKETS = 1024


def name_in_store(name: Name) -> tuple[int, str]:
    """The bucket in which a name is looked up, and how it stands there."""
    kind, text = name
    stored = kind[0] + text
    return crc32(stored.encode()) % _BUCKETS, stored


def names_in(change: Change) -> list[Any] | None:
    """Who wants which names, and which are given up; None if names play no part."""
    freed: list[Any] = []
    newcomers: list[Any] = []
    taken = False
    for job in change.deletes:
        freed += given_up(job)
    for position, write in enumerate(change.writes):
        job = write.job
        if job.unique_key is None and job.ref is None and "unique_key" not in write.set:
            continue
        after = applied(job, write)
        wanted = names_held(after)
        freed += given_up(job, wanted)
        taken = taken or not set(wanted) <= set(names_held(job))
        if wanted:
            newcomers.append(newcomer(-1 - position, after))
    for position, job in enumerate(kinds(change.inserts)):
        if names_held(job):
            newcomers.append(newcomer(position, job))
            taken = True
    if not taken:
        newcomers = []
    return [newcomers, freed] if newcomers or freed else None


def newcomer(position: int, job: Job) -> list[Any]:
    """A job with the names it wants; one without an id gets its number later."""
    names = [part for name in names_held(job) for part in name_in_store(name)]
    return [position, raw(number_of(job.id) if job.id else b""), *names]


def given_up(job: Job, still: list[Name] | None = None) -> list[Any]:
    """The names a job had and no longer wants."""
    gone = [name for name in names_held(job) if name not in (still or ())]
    return [part for name in gone for part in (*name_in_store(name), raw(number_of(job.id)))]
