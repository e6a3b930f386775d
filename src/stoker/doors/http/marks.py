"""Jobs that are made for an Idempotency-Key, and known again by their refs.

A server may die when it has made them and before it could note the answer. Whoever serves the
request anew has the same mark, and finds them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stoker.doors.http.endpoint import Call
from stoker.errors import Duplicate
from stoker.kernel.job import Job
from stoker.store import Filter


def marked(call: Call, jobs: Sequence[Job], parent_id: int | None = None) -> list[Job]:
    """The jobs, each with a ref that holds the mark, if there is one; a ref of its own stays."""
    if call.once is None:
        return list(jobs)
    # Named after its parent, as a run is after its schedule: it has to live where that does.
    begin = "http-once" if parent_id is None else f"{parent_id}@http-once"
    return [
        msgspec.structs.replace(job, ref=f"{begin}:{call.once}:{place}") if job.ref is None else job
        for place, job in enumerate(jobs)
    ]


async def made_before(call: Call, jobs: Sequence[Job], error: Duplicate) -> list[int]:
    """The ids of the jobs, if they were made for this very request; else they are twins."""
    mark, store = call.once, call.office.desk.store
    if mark is None or not any(mark in job.ref for job in jobs if job.ref is not None):
        raise error

    def find() -> list[int]:
        return [job.id for each in jobs for job in store.find(Filter(ref=each.ref, limit=1))]

    found = await call.office.run(find)
    if len(found) < len(jobs):
        raise error
    return found
