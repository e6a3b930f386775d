"""A task to throttle, and what workers do about it, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from stoker import Context, Job, JobHandle, Stoker, Throttle
from stoker.testing import Harness

HOUR = 3_600_000_000


def add_fetch(app: Stoker) -> None:
    """The task `fetch`, in the queue `api`."""

    @app.task(name="fetch", queue="api")
    def fetch(region: str = "") -> str:
        return region


def enqueue(app: Stoker, regions: Iterable[str]) -> list[JobHandle[str]]:
    return [app["fetch"].options(key=region).enqueue(region) for region in regions]


def states(jobs: Iterable[JobHandle[str]]) -> list[str]:
    return [job.state.name for job in jobs]


def start(app: Stoker, room: int = 1000) -> list[Job]:
    """Start what the throttler lets, as a worker with so much room does, and keep it running."""
    app.ensure_throttlers()
    throttling, started = app.desk.throttling, list[Job]()
    while (left := room - len(started)) > 0:
        ruling = throttling.ask("api", app.throttlers["api"], room=left, owner="me").ruling
        started += [] if ruling is None else throttling.carry_out(ruling)
        if ruling is None or not ruling.unfinished:
            break
    return started


def keys(jobs: Iterable[Job]) -> Counter[str | None]:
    return Counter(job.key for job in jobs)


def noting(app: Stoker, stoker: Harness) -> list[tuple[int, int]]:
    """When the jobs of the task `note` run, and in which try."""
    started: list[tuple[int, int]] = []

    @app.task(name="note", queue="api")
    def note(context: Context) -> None:
        started.append((stoker.clock(), context.job.attempt))

    return started


def per_key(app: Stoker, limits: dict[str, int]) -> None:
    """A throttler that lets so many of each key run."""

    @app.throttler("api")
    def per_key(throttle: Throttle) -> None:
        busy = Counter(job.key for job in throttle.running)
        for job in throttle.candidates:
            if busy[job.key] < limits.get(job.key or "", 0):
                busy[job.key] += 1
                throttle.admit(job)
            else:
                throttle.hold(job, f"{job.key} is full")
