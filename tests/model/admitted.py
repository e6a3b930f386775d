"""What was let in, held against the limits as they are said: whatever two engines agree about, no
claim may exceed one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from stoker.kernel.job import Job, load
from stoker.kernel.queue import QueueSettings
from stoker.store import QueueView
from tests.faults.journal import lease_of
from tests.faults.limits import Limit, amount, limits_of, started


class Admitted:
    """All that has started since settings were changed, by what is limited: under another kind of
    rate engines need not remember it."""

    def __init__(self) -> None:
        self._settings: Mapping[str, QueueSettings] = {}
        self._starts: dict[Limit, list[tuple[int, int]]] = defaultdict(list)

    def check(self, fresh: Sequence[Job], jobs: Iterable[Job], views: Iterable[QueueView]) -> None:
        """Was there room for these, among all jobs and by the settings that there are?"""
        settings = {view.name: view.settings for view in views}
        if settings != self._settings:
            self._settings = settings
            self._starts.clear()
        held: dict[Limit, list[int]] = defaultdict(list)
        for job in jobs:
            if load(job):
                for limit in limits_of(lease_of(job), settings):
                    held[limit].append(load(job))
        entered = [job for job in fresh if job.weight]
        for limit in {limit for job in entered for limit in limits_of(lease_of(job), settings)}:
            loads = held[limit]
            assert limit.units is None or sum(loads) <= limit.units or len(loads) == 1, limit
        for job in entered:
            self._start(job, limits_of(lease_of(job), settings))

    def _start(self, job: Job, limits: Iterable[Limit]) -> None:
        for limit in limits:
            if limit.rate is not None:
                starts = self._starts[limit]
                starts.append((job.started_at or 0, job.weight))
                *_, (_, taken) = started(limit.rate, starts)
                assert taken <= max(amount(limit.rate), job.weight), limit
