"""Low-water marks: where claims last came to, by queue and bucket.

What was claimed leaves dead entries at the front of the index. As long as some transaction holds
an old snapshot nothing removes them, and each claim would have to pass them all. So a claim goes
on where the one before came to.

A mark is a hint. Jobs that come back to a place before it are seen at once if they come through
this store, else with the next look at the whole: when little is left to claim, and about every
second. Commits take a while, so what fell due within the last second is always looked at.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stoker.kernel.job import Job
from stoker.kernel.queue import Order

Place = tuple[int, int, int]
"""(due_at, second, id) within a bucket."""

_IN_FLIGHT = 1_000_000
_LOOK_EVERY = 1.0
_CHEAP = 0.005
_SHARE = 20
_LONGEST_WAIT = 10.0
_MOST_BUCKETS = 64
_BEFORE_ALL = -(2**63)


class Mark(NamedTuple):
    """A queue, a bucket of it, and the place up to which it was claimed: of the jobs without a
    lane, or of those that are taken past their lanes."""

    queue: str
    bucket: int
    place: Place
    past_lanes: bool = False


class Marks:
    """What this process remembers. Threads may step on one another's marks: they are hints."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, bool], dict[int, Place]] = {}
        self._looked_at = 0.0
        self._cost = 0.0
        self._costs = deque([0.0], maxlen=5)
        self._scarce = True

    def known(self, queues: Iterable[str]) -> list[Mark]:
        """The marks of these queues."""
        return [
            Mark(queue, bucket, place, past_lanes)
            for queue in queues
            for past_lanes in (False, True)
            for bucket, place in list(self._places.get((queue, past_lanes), {}).items())
        ]

    @property
    def can_be_done_without(self) -> bool:
        """Does a look at the whole cost next to nothing? One alone may have had to wait."""
        return min(self._costs) < _CHEAP

    def for_claim(self, queues: Iterable[str]) -> list[Mark]:
        """The marks to claim by; none if it is time to look at the whole.

        A look may be dear just when marks matter most: all looks get a small share of the time. But
        it may only have waited for somebody who was halted, and must not be the last for long.
        """
        wait = 0.0 if self._cost < _CHEAP else min(_SHARE * self._cost, _LONGEST_WAIT)
        if not self._scarce:
            wait = max(_LOOK_EVERY, wait)
        return [] if time.monotonic() - self._looked_at >= wait else self.known(queues)

    def note(self, began: float, *, whole: bool, scarce: bool) -> None:
        """A claim that began then is over: it looked at the whole or went by marks, and found
        less than it was asked for or not."""
        self._scarce = scarce
        if whole:
            self._looked_at = time.monotonic()
            self._cost = self._looked_at - began
            self._costs.append(self._cost)

    def move(
        self,
        jobs: Sequence[Job],
        order: Order,
        now: int,
        *,
        whole: bool,
        past_lanes: bool = False,
    ) -> None:
        """These were claimed, in this order.

        After a look at the whole nobody else is before them, and marks may also go back to them.
        """
        settled = (now - _IN_FLIGHT, _BEFORE_ALL, 0)
        by_time = order is Order.TIME_RANK
        # They come in order, so the last one of a bucket is the one that counts.
        last = {(job.queue, 0 if by_time else job.rank): job for job in jobs}
        for (queue, bucket), job in last.items():
            buckets = self._places.setdefault((queue, past_lanes), {})
            place = min((job.due_at, job.rank - bucket, job.id), settled)
            if whole or bucket not in buckets or place > buckets[bucket]:
                buckets[bucket] = place
            if len(buckets) > _MOST_BUCKETS:
                self.forget(queue)

    def placed(self, queue: str, due_at: int) -> None:
        """A job was queued with this due time: it must not be overlooked."""
        for past_lanes in (False, True):
            buckets = self._places.get((queue, past_lanes), {})
            for bucket, place in list(buckets.items()):
                if due_at <= place[0]:
                    buckets[bucket] = (due_at - 1, _BEFORE_ALL, 0)

    def forget(self, queue: str) -> None:
        """The queue's order has changed."""
        for past_lanes in (False, True):
            self._places.pop((queue, past_lanes), None)
