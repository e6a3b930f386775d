"""What is remembered of jobs that were handed out here: copies, and when their leases end.

Both are hints. A copy that is no longer right is read again, and leases that were given elsewhere
are found by the chores, and by whoever asks next.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Sequence

from stoker.kernel.job import Job

_STEP = 20_000
"""Ends are watched in steps of so many microseconds, so that many leases are few moments."""
_MOST = 100_000
_MOST_COPIES = 10_000


class Copies:
    """Jobs as they were handed out, so that whoever finishes one need not read it first."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}

    def keep(self, jobs: Sequence[Job]) -> None:
        """Remember these, and forget the oldest if there are too many."""
        for job in jobs:
            self._jobs[job.id] = job
        while len(self._jobs) > _MOST_COPIES:
            del self._jobs[next(iter(self._jobs))]

    def pop(self, job_id: int) -> Job | None:
        """The copy of a job about which something is to be decided: it will not stay right."""
        return self._jobs.pop(job_id, None)


class LeaseWatch:
    """Calls `ended` soon after the end of each lease it was told of."""

    def __init__(self, now: Callable[[], int], ended: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = now
        self._ended = ended
        self._steps: list[int] = []
        self._known: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None

    def note(self, jobs: Sequence[Job]) -> None:
        """These jobs were handed out."""
        for job in jobs:
            if job.until is None or len(self._steps) >= _MOST:
                continue
            step = job.until // _STEP + 1
            if step not in self._known:
                self._known.add(step)
                heapq.heappush(self._steps, step)
                if self._steps[0] == step:
                    self._set_timer()

    def close(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        self.close()
        seconds = (self._steps[0] * _STEP - self._now()) / 1e6
        self._timer = self._loop.call_later(max(seconds, 0.0), self._strike)

    def _strike(self) -> None:
        present = self._now() // _STEP
        while self._steps and self._steps[0] <= present:
            self._known.discard(heapq.heappop(self._steps))
        self._ended()
        if self._steps:
            self._set_timer()
