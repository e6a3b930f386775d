"""What a peer's worker has in hand: its session, its queues, its processes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stoker.kernel.job import Job
from stoker.worqr.forms import Task, task_of


class Held(NamedTuple):
    """A process of this worker, and since when it runs, by a clock of ours."""

    queue: str
    job: Job
    since: float


class Hands:
    """Empty until the worker is started, and again when it is stopped or has failed."""

    def __init__(self) -> None:
        self.session: int | None = None
        self.queues: dict[str, None] = {}
        self._processes: dict[str, Held] = {}
        self._told: set[str] = set()

    def empty(self) -> None:
        """Everything is gone."""
        self.session = None
        self.queues.clear()
        self._processes.clear()
        self._told.clear()

    def take(self, process_id: str, queue: str, job: Job) -> None:
        """A process has begun."""
        self._processes[process_id] = Held(queue, job, time.monotonic())

    def get(self, process_id: str) -> Job | None:
        """The job of a process that is in hand."""
        held = self._processes.get(process_id)
        return None if held is None else held.job

    def drop(self, process_id: str) -> None:
        """A process has ended, or is not ours any more."""
        self._processes.pop(process_id, None)
        self._told.discard(process_id)

    def of(self, queue: str) -> dict[str, Job]:
        """The processes of a queue, in the order in which they began."""
        return {name: held.job for name, held in self._processes.items() if held.queue == queue}

    def ages(self) -> dict[str, int]:
        """For how many milliseconds which process has been running."""
        now = time.monotonic()
        return {name: round((now - held.since) * 1e3) for name, held in self._processes.items()}

    def note_cancel(self, queue: str, task: Task) -> None:
        """Whoever works on the task has been told that it is not wanted."""
        self._told.update(
            name
            for name, held in self._processes.items()
            if held.queue == queue and task_of(held.job) == task
        )

    def untold(self, job_ids: Iterable[int]) -> Iterator[tuple[str, Task]]:
        """Queues and tasks of unwanted processes whose workers have not been told."""
        unwanted = set(job_ids)
        for name, held in self._processes.items():
            if held.job.id in unwanted and name not in self._told:
                yield held.queue, task_of(held.job)
