"""Going through all jobs that are looked for, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stoker.kernel.job import Job
from stoker.store import Filter, Store

PAGE = 500


def pages(store: Store, wanted: Filter, at_once: int = PAGE) -> Iterator[list[Job]]:
    """All that match, so many at once; the limit of the filter does not count."""
    wanted = msgspec.structs.replace(wanted, limit=at_once)
    while page := store.find(wanted):
        yield page
        if len(page) < at_once:
            return
        wanted = msgspec.structs.replace(wanted, after=page[-1].id)


def every(store: Store, wanted: Filter, at_once: int = PAGE) -> Iterator[Job]:
    """The same one by one. What is not asked for is not read, but for the rest of a page."""
    for page in pages(store, wanted, at_once):
        yield from page


def pages_by_now(store: Store, wanted: Filter) -> Iterator[list[Job]]:
    """All that match and are there by now; whatever arrives meanwhile is left alone."""
    newest = store.find(Filter(newest_first=True, limit=1))
    last = newest[0].id if newest else 0
    for page in pages(store, wanted):
        found = [job for job in page if job.id <= last]
        if not found:
            return
        yield found
