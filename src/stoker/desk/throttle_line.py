"""Whom to ask a throttler about: the due jobs in the order of their queue, so many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import islice, takewhile
from typing import NamedTuple

from stoker.desk.throttle_memory import Memory
from stoker.kernel.job import QUEUED, Job, place
from stoker.kernel.queue import QueueSettings
from stoker.kernel.window import is_open
from stoker.store import InLine, Store
from stoker.store.choosing import Spot, ordering

_PAGE = 500

Order = tuple[int, int, int]


class Page(NamedTuple):
    """Some jobs of a line, one behind the other."""

    jobs: list[Job]
    """As the store has them."""
    after: Order | None
    """Behind which place they stand; None: behind none."""
    last: Spot | None
    """Where the last of them stands, if there are more behind."""
    order: Callable[[Spot | Job], Order]

    def covers(self, spot: Spot) -> bool:
        """Would somebody who stands there be among them?"""
        where = self.order(spot)
        is_behind = self.after is None or where > self.after
        return is_behind and (self.last is None or where <= self.order(self.last))


class Line:
    """The due jobs of a queue, those that stand aside in their own places."""

    def __init__(self, store: Store, queue: str, memory: Memory, settings: QueueSettings) -> None:
        self._store = store
        self._queue = queue
        self._memory = memory
        self._order: Callable[[Spot | Job], Order] = ordering(settings)
        self._now = store.now()

    def page(self, size: int) -> Page:
        """The next ones to be asked about."""
        behind = self._memory.behind
        line = merge(self._there(behind, size + 1), self._aside(behind), key=self._own_order)
        jobs = list(islice((job for job in line if self._may_start(job)), size + 1))
        more = len(jobs) > size
        jobs = jobs[:size]
        after = None if behind is None else self._order(Spot(*behind))
        return Page(jobs, after, self._own_spot(jobs[-1]) if more else None, self._order)

    def in_the_way(self, page: Page) -> list[Job]:
        """Those who stand in the store's line before the ones that are asked about; and those who
        were aside and have fallen due again, wherever that is."""
        asked = {job.id for job in page.jobs}
        found: dict[int, Job] = {}
        if self._memory.behind is not None:
            last = self._order(Spot(*self._memory.behind))
            before = takewhile(lambda job: self._order(job) <= last, self._stored(None))
            found = {job.id: job for job in before if job.id not in asked}
        known = found.keys() | asked
        back = [
            Spot(stand.rank, stand.due_at, job_id)
            for job_id, stand in self._memory.aside.items()
            if stand.until <= self._now and job_id not in known
        ]
        return [*found.values(), *self._found(back)]

    def _there(self, behind: Order | None, at_once: int) -> Iterator[Job]:
        for job in self._stored(behind, at_once):
            if self._memory.own_due_at(job) == job.due_at:
                yield job

    def _stored(self, behind: Order | None, at_once: int = _PAGE) -> Iterator[Job]:
        while page := self._store.find(InLine(self._queue, behind, at_once)):
            yield from page
            if len(page) < at_once:
                return
            behind = place(page[-1])

    def _aside(self, behind: Order | None) -> Iterator[Job]:
        spots = [Spot(each.rank, each.due_at, job) for job, each in self._memory.aside.items()]
        if behind is not None:
            first = self._order(Spot(*behind))
            spots = [spot for spot in spots if self._order(spot) > first]
        spots.sort(key=self._order)
        for at in range(0, len(spots), _PAGE):
            yield from self._found(spots[at : at + _PAGE])

    def _found(self, spots: Sequence[Spot]) -> Iterator[Job]:
        jobs = self._store.get([spot.id for spot in spots])
        for spot in spots:
            job = jobs.get(spot.id)
            # Who was moved by hand meanwhile goes by its new time.
            if job is not None and job.queue == self._queue and self._stands_aside(job):
                yield job

    def _stands_aside(self, job: Job) -> bool:
        return job.state is QUEUED and self._memory.own_due_at(job) != job.due_at

    def _may_start(self, job: Job) -> bool:
        windows = job.policy.windows
        return windows is None or is_open(windows, self._now)

    def _own_spot(self, job: Job) -> Spot:
        return Spot(job.rank, self._memory.own_due_at(job), job.id)

    def _own_order(self, job: Job) -> Order:
        return self._order(self._own_spot(job))
