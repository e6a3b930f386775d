"""Filters, said of one job."""

from __future__ import annotations

from stoker.kernel.job import Job
from stoker.store import Filter

FACTS = ("queue", "name", "key", "parent_id", "session", "ref", "unique_key", "waits_for")
"""By which of a job's facts a filter may ask for just one value."""


def matches(job: Job, query: Filter) -> bool:
    """Does a filter mean this job, pages apart?"""
    if query.states and job.state not in query.states:
        return False
    if query.after is not None:
        seen = job.id >= query.after if query.newest_first else job.id <= query.after
        if seen:
            return False
    if query.repeating and job.policy.repeat is None:
        return False
    return all(getattr(query, fact) in (None, getattr(job, fact)) for fact in FACTS)
