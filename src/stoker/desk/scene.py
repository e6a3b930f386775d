"""What stands around a job at one moment: gathered here, judged in `explain`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter

import msgspec

from stoker.desk.forecast import Forecast, flows_of, forecast
from stoker.desk.known_tasks import Known
from stoker.desk.known_tasks import recall as recall_tasks
from stoker.desk.meters import MOST_NAMED, Around, Meter, around, meters
from stoker.desk.throttle_memory import Memory, recall
from stoker.desk.workers import WorkerView, survey_workers
from stoker.kernel.job import LIVE, WAITS_FOR_CHILDREN, WAITS_FOR_PARENT, Job, State
from stoker.kernel.queue import QueueSettings
from stoker.kernel.turns import BEFORE_ALL, Party
from stoker.store import Filter, QueueView, Store
from stoker.store.choosing import ordering

_MOST_IN_LINE = 1000


class Scene(msgspec.Struct, frozen=True):
    """What stands around a job at one moment."""

    now: int
    queue: QueueView
    outer: QueueView | None = None
    """The queue that its own is within."""
    workers: Sequence[WorkerView] = ()
    in_hand: Sequence[Job] = ()
    """Jobs of its queue that run, the newest: they tell who works there."""
    meters: Sequence[Meter] = ()
    """The limits it has to pass."""
    line: Sequence[Job] = ()
    """Those due jobs of its queue that go before it, as far as they were looked at."""
    more: bool = False
    """Are there queued jobs that were not looked at?"""
    starts_at: int | None = None
    """When it will start if nobody stands in its way and time alone decides; None if nobody can
    tell, or does not know who goes before it."""
    kin: Sequence[Job] = ()
    """Its parent if it is held for it; its children that have not ended."""
    knows: Callable[[str], bool] | None = None
    """Whether a task of that name is known, if the asker can tell."""
    known: Known = {}
    """What live workers have told of the tasks they know."""
    throttler: Memory | None = None
    """What is remembered of its queue's throttler, if that has one."""


def look(store: Store, job: Job, knows: Callable[[str], bool] | None = None) -> tuple[Job, Scene]:
    """Gather what stands around a job; one that a throttler has set aside is shown in its place."""
    place, now = around(store, job.queue), store.now()
    throttler = recall(store, job.queue)[0] if place.queue.settings.throttled else None
    if throttler is not None:
        job = msgspec.structs.replace(job, due_at=throttler.own_due_at(job))
    line: Sequence[Job] = ()
    more = False
    coming = Forecast(None)
    if job.state is State.QUEUED:
        rated = _rated(job, place)
        queued = _queued(store, job) if rated or job.due_at <= now else []
        more = len(queued) > _MOST_IN_LINE
        queued = queued[:_MOST_IN_LINE]
        line = _before(job, queued, place.queue.settings, now)
        coming = _forecast(store, job, queued if rated else [], place, now)
        coming = coming._replace(starts_at=None) if more and rated else coming
    workers = survey_workers(store)
    marks = [worker.info.tasks for worker in workers if worker.alive]
    scene = Scene(
        now,
        place.queue,
        place.outer,
        workers,
        _in_hand(store, job, now) if job.state is State.QUEUED else (),
        meters(store, job, place, coming.before) if job.state is State.QUEUED else (),
        line,
        more,
        coming.starts_at,
        _kin(store, job),
        knows,
        recall_tasks(store, marks) if job.state is State.QUEUED else {},
        throttler,
    )
    return job, scene


def _queued(store: Store, job: Job) -> list[Job]:
    """The others that are queued where it is, those that came first; one more than count."""
    found = store.find(Filter(states=(State.QUEUED,), queue=job.queue, limit=_MOST_IN_LINE + 2))
    return [each for each in found if each.id != job.id]


def _before(job: Job, queued: Sequence[Job], settings: QueueSettings, now: int) -> Sequence[Job]:
    if job.due_at > now:
        return ()
    line = _lined_up([*(each for each in queued if each.due_at <= now), job], settings)
    return line[: line.index(job)]


def _rated(job: Job, place: Around) -> bool:
    """Does it matter who starts before it, and when?"""
    views = [place.queue] if place.outer is None else [place.queue, place.outer]
    return bool(job.weight) and any(view.settings.has_rates for view in views)


def _forecast(store: Store, job: Job, others: Sequence[Job], place: Around, now: int) -> Forecast:
    flows = flows_of(store, place.queue, place.outer, [job, *others])
    in_order = partial(_lined_up, settings=place.queue.settings)
    return forecast(job, others, place.queue, place.outer, flows, now, in_order)


def _lined_up(jobs: Sequence[Job], settings: QueueSettings) -> list[Job]:
    """Jobs in the order in which they may start; where keys take turns, as if all began now."""
    jobs = sorted(jobs, key=ordering(settings))
    if not settings.fair:
        return jobs
    reached: Counter[Party] = Counter()
    turns = []
    for job in jobs:
        turns.append((reached[job.key] if job.weight else BEFORE_ALL, job))
        reached[job.key] += settings.turn_length(job.key, job.weight)
    return [job for _, job in sorted(turns, key=itemgetter(0))]


def _in_hand(store: Store, job: Job, now: int) -> list[Job]:
    wanted = Filter(states=(State.RUNNING,), queue=job.queue, newest_first=True)
    return [each for each in store.find(wanted) if each.until is None or each.until > now]


def _kin(store: Store, job: Job) -> list[Job]:
    if job.waits_for == WAITS_FOR_PARENT and job.parent_id is not None:
        return list(store.get([job.parent_id]).values())
    if job.waits_for == WAITS_FOR_CHILDREN:
        live = Filter(states=tuple(sorted(LIVE)), parent_id=job.id, limit=MOST_NAMED + 1)
        return store.find(live)
    return []
