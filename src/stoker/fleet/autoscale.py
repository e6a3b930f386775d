"""How many workers the work needs: by the seconds it will take, not by the number of jobs.

A thousand jobs of a millisecond are no reason to start anything; ten jobs of an hour are. So what
waits is weighed by how long jobs of its queue have lately taken, and the fleet is made large enough
to do it within a given time. All figures come from a few reads that cost the same in any queue.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from stoker.errors import BadInput
from stoker.kernel.glob import glob_matches
from stoker.kernel.job import FAILED, FINISHED, QUEUED, RUNNING, Job
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.store import Filter, QueueView, Store

WITHIN = 10.0
"""Seconds in which the work that waits should be done."""

_SAMPLE = 50
_MOST_SAMPLED = 20
_UNKNOWN = 1.0
_SECOND = 1_000_000


class Demand(msgspec.Struct, frozen=True):
    """The work of one queue."""

    queue: str
    due: int
    """Jobs that could run now."""
    running: int
    run_seconds: float
    """How long a job of this queue takes."""
    capacity: float | None = None
    """How many of its jobs may run at once."""

    @property
    def work_seconds(self) -> float:
        """How long one pair of hands would need for what waits."""
        return self.due * self.run_seconds

    def slots(self, within: float) -> float:
        """How many jobs should run at once, for all of them to be done in that time.

        Those that run count by their time as well: a worker that does a thousand jobs a second has
        some in hand at any moment, and is not busy for that.
        """
        jobs = self.due + self.running
        wanted = min(jobs, jobs * self.run_seconds / within)
        return wanted if self.capacity is None else min(wanted, self.capacity)


def measure(store: Store, patterns: Sequence[str]) -> list[Demand]:
    """The work of the queues that are named; GLOB patterns allowed."""
    there, now = store.survey(), store.now()
    outer = {view.name: view.settings for view in there}
    views = [_at(view, outer.get(view.settings.within or ""), now) for view in there]
    meant = [view for view in views if _is_meant(view, patterns)]
    by_size = sorted(meant, key=lambda view: -view.counts[QUEUED])
    return [
        _demand(store, view, now, sampled=place < _MOST_SAMPLED)
        for place, view in enumerate(by_size)
    ]


def late_seconds(store: Store, demands: Sequence[Demand]) -> float:
    """For how long the job that has waited longest could have run."""
    names = [demand.queue for demand in demands if demand.due]
    first = store.next_due(names, after=0) if names else None
    return 0.0 if first is None else max(0.0, (store.now() - first) / _SECOND)


def _at(view: QueueView, outer: QueueSettings | None, now: int) -> QueueView:
    """A queue with the pause and the capacity of the one that it is within; it pauses, too, while
    it is closed."""
    own = view.settings
    outer = DEFAULTS if own.within is None or outer is None else outer
    capacity = min((each for each in (own.capacity, outer.capacity) if each), default=None)
    paused = own.paused or outer.paused or own.opens_at(now, outer) != now
    return msgspec.structs.replace(view, settings=QueueSettings(capacity=capacity, paused=paused))


def _is_meant(view: QueueView, patterns: Sequence[str]) -> bool:
    if view.settings.paused or not (view.counts[QUEUED] or view.counts[RUNNING]):
        return False
    return any(glob_matches(pattern, view.name) for pattern in patterns)


def _demand(store: Store, view: QueueView, now: int, *, sampled: bool) -> Demand:
    queued, running = view.counts[QUEUED], view.counts[RUNNING]
    due, run_seconds = queued, _UNKNOWN
    if sampled:
        due = round(queued * _share_due(store, view.name, now))
        run_seconds = _run_seconds(store, view.name, now)
    return Demand(view.name, due, running, run_seconds, view.settings.capacity)


def _share_due(store: Store, queue: str, now: int) -> float:
    """Which part of the queued jobs could run now, judged by those that came first."""
    sample = store.find(Filter(states=(QUEUED,), queue=queue, limit=_SAMPLE))
    return sum(job.due_at <= now for job in sample) / max(len(sample), 1)


def _run_seconds(store: Store, queue: str, now: int) -> float:
    """How long jobs take: those that ended last, and those that run, as long as they have yet."""
    ended = Filter(states=(FINISHED, FAILED), queue=queue, newest_first=True, limit=_SAMPLE)
    running = Filter(states=(RUNNING,), queue=queue, limit=_SAMPLE)
    times = [_took(job, job.ended_at or now) for job in store.find(ended)]
    times += [took for job in store.find(running) if (took := _took(job, now)) > _mean(times)]
    return _mean(times) if times else _UNKNOWN


def _took(job: Job, until: int) -> float:
    return 0.0 if job.started_at is None else max(0, until - job.started_at) / _SECOND


def _mean(times: Sequence[float]) -> float:
    return sum(times) / len(times) if times else 0.0


def read_range(text: str) -> tuple[int, int]:
    """The fewest and the most processes, from MIN:MAX."""
    least, _, most = text.partition(":")
    if not (least.isascii() and least.isdigit() and most.isascii() and most.isdigit()):
        raise BadInput(f"cannot read {text!r}; write the fewest and the most processes, as in 1:8")
    if not 1 <= int(least) <= int(most):
        raise BadInput(f"{text!r} is no range; write the fewest first, 1 at least, as in 1:8")
    return int(least), int(most)


class Autoscaler:
    """Tells a fleet its size. It grows at once, and shrinks when less has been enough for a while.

    >>> scale = Autoscaler(1, 8, concurrency=10, clock=lambda: 0.0)
    >>> scale.size([Demand("mail", due=1000, running=0, run_seconds=0.5)])
    5
    >>> scale.size([])
    5
    """

    def __init__(
        self,
        least: int,
        most: int,
        *,
        concurrency: int,
        within: float = WITHIN,
        calm: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.least = least
        self._most = most
        self._concurrency = concurrency
        self._within = within
        self._calm = calm
        self._clock = clock
        self._wanted: deque[tuple[float, int]] = deque()

    def size(self, demands: Sequence[Demand]) -> int:
        """How many processes there should be: the most that was wanted lately."""
        slots = sum(demand.slots(self._within) for demand in demands)
        wanted = math.ceil(round(slots / self._concurrency, 6))
        now = self._clock()
        self._wanted.append((now, max(self.least, min(wanted, self._most))))
        while self._wanted[0][0] < now - self._calm:
            self._wanted.popleft()
        return max(wanted for _, wanted in self._wanted)
