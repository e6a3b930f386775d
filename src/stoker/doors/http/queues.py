"""Operations on queues and workers, and figures about all of it."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec
from msgspec import Meta

from stoker.desk.workers import survey_workers
from stoker.doors.cli.words import iso, read_states
from stoker.doors.forms import (
    QueueForm,
    QueueInFull,
    WorkerForm,
    queue_form,
    queue_in_full,
    worker_form,
)
from stoker.doors.http.answers import Answer, told
from stoker.doors.http.endpoint import Call, Operation
from stoker.doors.http.queue_wishes import QueueChange
from stoker.doors.http.register import Scope
from stoker.errors import NotFound
from stoker.fleet.autoscale import late_seconds, measure
from stoker.kernel.job import Job, State
from stoker.kernel.queue import DEFAULTS
from stoker.store import Filter, QueueView, Store
from stoker.store.paging import pages_by_now


class Queues(msgspec.Struct, frozen=True):
    """All queues, by name."""

    queues: list[QueueForm]


class Workers(msgspec.Struct, frozen=True):
    """All workers on the books; the dead ones until their jobs are recovered."""

    workers: list[WorkerForm]


class Crowd(msgspec.Struct, frozen=True):
    """How many workers there are."""

    alive: int
    dead: int


class Stats(msgspec.Struct, frozen=True):
    """All jobs in numbers."""

    at: str
    queues: int
    jobs: dict[str, int]
    workers: Crowd
    next_due: str | None


class Purged(msgspec.Struct, frozen=True):
    """How many jobs were deleted."""

    deleted: int


class Which(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which jobs of a queue are meant; by default all that do not run."""

    state: list[str] = []


class Backlog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which queues are meant (by default all), and in how many seconds the work should be done."""

    queue: list[str] = []
    within: Annotated[float, Meta(gt=0, le=86_400)] = 10.0


class Load(msgspec.Struct, frozen=True):
    """How much work waits. `slots_wanted` is what an autoscaler needs: jobs to run at once."""

    due: int
    running: int
    run_seconds: float
    """How long one of the jobs that wait will take."""
    late_seconds: float
    """For how long the one that has waited longest could have run."""
    work_seconds: float
    """How long one pair of hands would need for all that wait."""
    slots_wanted: float


# -- queues --------------------------------------------------------------------------------


async def list_queues(call: Call) -> Answer:
    """All queues."""
    views = await call.office.run(call.office.desk.store.survey)
    return told(Queues([queue_form(view) for view in views]))


async def get_queue(call: Call) -> Answer:
    """One queue."""
    return told(await call.office.run(_in_full, call))


def _in_full(call: Call) -> QueueInFull:
    return queue_in_full(_there(call), call.office.desk.store)


async def change_queue(call: Call) -> Answer:
    """Change settings of a queue."""
    await call.office.run(_change, call)
    call.office.observer.nudge()
    return await get_queue(call)


def _change(call: Call) -> None:
    wish: QueueChange = call.body
    call.office.desk.control.settings.change(call.path["name"], wish.read)


async def set_queue(call: Call) -> Answer:
    """Give a queue exactly these settings."""
    await call.office.run(_set, call)
    call.office.observer.nudge()
    return await get_queue(call)


def _set(call: Call) -> None:
    wish: QueueChange = call.body
    call.office.desk.control.configure(call.path["name"], wish.read(DEFAULTS))


async def purge(call: Call) -> Answer:
    """Delete jobs of a queue."""
    deleted = await call.office.run(_purge, call)
    call.office.observer.nudge()
    return told(Purged(deleted))


def _purge(call: Call) -> int:
    """Delete all that were there by now; whatever arrives meanwhile is left alone."""
    view, desk = _there(call), call.office.desk
    states = read_states(call.query.state) or tuple(set(State) - {State.RUNNING})
    deleted = 0
    for page in pages_by_now(desk.store, Filter(states=states, queue=view.name)):
        results = desk.control.delete_many([job.id for job in page])
        deleted += sum(isinstance(result, Job) for result in results)
    return deleted


def _there(call: Call) -> QueueView:
    name = call.path["name"]
    views = call.office.desk.store.survey([name])
    if not views:
        raise NotFound(f"there is no queue {name!r}; a queue comes into being with its first job")
    return views[0]


# -- figures -------------------------------------------------------------------------------


async def list_workers(call: Call) -> Answer:
    """Who is at work."""
    found = await call.office.run(survey_workers, call.office.desk.store)
    return told(Workers([worker_form(worker) for worker in found]))


async def stats(call: Call) -> Answer:
    """All jobs in numbers."""
    return told(await call.office.run(_stats, call.office.desk.store))


def _stats(store: Store) -> Stats:
    views, workers = store.survey(), survey_workers(store)
    counts = sum((Counter(view.counts) for view in views), Counter[State]())
    alive = sum(worker.alive for worker in workers)
    return Stats(
        iso(store.now()),
        len(views),
        {state.name: counts[state] for state in State},
        Crowd(alive, len(workers) - alive),
        iso(store.next_due([view.name for view in views])),
    )


async def backlog(call: Call) -> Answer:
    """How much work waits, for autoscalers."""
    asked: Backlog = call.query
    return told(await call.office.run(_load, call.office.desk.store, asked))


def _load(store: Store, asked: Backlog) -> Load:
    patterns = asked.queue or ["*"]
    demands = measure(store, patterns)
    due, running = sum(each.due for each in demands), sum(each.running for each in demands)
    work = sum(each.work_seconds for each in demands)
    return Load(
        due,
        running,
        run_seconds=work / due if due else 0.0,
        late_seconds=late_seconds(store, demands),
        work_seconds=work,
        slots_wanted=sum(each.slots(asked.within) for each in demands),
    )


_OPERATE: tuple[Scope, ...] = ("operate",)

OPERATIONS = [
    Operation(
        *("GET", "/v1/queues", list_queues, "All queues"),
        scopes=_OPERATE,
        answers={200: Queues},
    ),
    Operation(
        *("GET", "/v1/queues/{name:path}", get_queue, "One queue"),
        scopes=_OPERATE,
        answers={200: QueueInFull},
        problems=("not_found",),
    ),
    Operation(
        *("PATCH", "/v1/queues/{name:path}", change_queue, "Change settings of a queue"),
        scopes=_OPERATE,
        body=QueueChange,
        answers={200: QueueInFull},
        once=True,
    ),
    Operation(
        *("PUT", "/v1/queues/{name:path}", set_queue, "Give a queue exactly these settings"),
        scopes=_OPERATE,
        body=QueueChange,
        answers={200: QueueInFull},
        once=True,
    ),
    Operation(
        *("DELETE", "/v1/queues/{name:path}", purge, "Delete jobs of a queue that do not run"),
        scopes=_OPERATE,
        query=Which,
        answers={200: Purged},
        problems=("not_found",),
        once=True,
    ),
    Operation(
        *("GET", "/v1/workers", list_workers, "Who is at work"),
        scopes=_OPERATE,
        answers={200: Workers},
    ),
    Operation(
        *("GET", "/v1/stats", stats, "All jobs in numbers"),
        scopes=_OPERATE,
        answers={200: Stats},
    ),
    Operation(
        *("GET", "/v1/backlog", backlog, "How much work waits, for autoscalers"),
        scopes=_OPERATE,
        query=Backlog,
        answers={200: Load},
    ),
]
