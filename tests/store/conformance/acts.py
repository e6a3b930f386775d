"""Short words for what people do at a desk, so that the sentences stay short too."""

from __future__ import annotations

from collections import Counter
from typing import Any

from stoker.desk import Desk
from stoker.kernel.job import STATES, Job, State, load
from stoker.kernel.outcome import Awaits
from stoker.kernel.retry import Failure
from stoker.store import Filter, Store

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

EVERYTHING = Filter(limit=1_000_000)
Facts = dict[str, Any]
"""What a job may be made with, by name."""

BROKEN = Failure(("builtins.ValueError", "builtins.Exception"), "broken")


def put(desk: Desk, queue: str = "q", **facts: Any) -> int:
    """Enqueue a job and tell its id."""
    return desk.intake.enqueue(Job(queue, **facts)).id


def take(desk: Desk, *queues: str, **lease: Any) -> Job:
    """Claim the foremost job; there has to be one."""
    (job,) = desk.dispatch.claim(queues or ("q",), **lease)
    return job


def take_all(desk: Desk, *queues: str, limit: int = 1000) -> list[int]:
    """The ids of all jobs that may start now, in the order given out."""
    return [job.id for job in desk.dispatch.claim(queues or ("q",), limit)]


def running(desk: Desk, queue: str = "q", **facts: Any) -> Job:
    """A job that was just enqueued and claimed."""
    job_id = put(desk, queue, **facts)
    job = take(desk, queue)
    assert job.id == job_id
    return job


def seen(desk: Desk, job_id: int) -> Job:
    """The job as it is now."""
    return desk.store.get([job_id])[job_id]


def state(desk: Desk, job_id: int) -> State:
    return seen(desk, job_id).state


def exists(desk: Desk, job_id: int) -> bool:
    return job_id in desk.store.get([job_id])


def snapshot(store: Store) -> tuple[object, ...]:
    """All that can be seen of the jobs, to show that nothing changed."""
    return (store.find(EVERYTHING), store.survey())


def counted(store: Store) -> dict[str, tuple[dict[State, int], int]]:
    """Per queue: jobs by state, and the capacity they hold, counted one by one."""
    jobs = store.find(EVERYTHING)
    states = Counter((job.queue, job.state) for job in jobs)
    used: Counter[str] = Counter()
    for job in jobs:
        used[job.queue] += load(job)
    return {
        queue: ({each: states[queue, each] for each in STATES}, used[queue])
        for queue in {job.queue for job in jobs}
    }


def surveyed(store: Store) -> dict[str, tuple[dict[State, int], int]]:
    """The same as the survey tells it, without queues that are empty."""
    return {
        view.name: (dict(view.counts), view.used)
        for view in store.survey()
        if any(view.counts.values())
    }


def asking(desk: Desk, key: str = "k", **facts: Any) -> Job:
    """A job that waits for an answer."""
    return desk.report.wait(running(desk, **facts), Awaits(key))
