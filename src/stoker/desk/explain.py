"""Why a job is not running, and when it will.

`look` gathers what stands around a job; `blockers` is pure and says what of it stands in its way.
Doors render Blockers: the reason is a stable word, the text a sentence, and `until` is left as a
time so that everybody may write it in his own way.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

import msgspec

from stoker.desk.workers import WorkerView, survey_workers
from stoker.errors import NotFound
from stoker.kernel.admission import Admission, Turnstile
from stoker.kernel.job import (
    LIVE,
    REPLY_PREFIX,
    WAITS_FOR_CHILDREN,
    WAITS_FOR_PARENT,
    WAITS_FOR_TICK,
    WHOLE_WEIGHT,
    Job,
    State,
    load,
)
from stoker.kernel.policy import OnLost
from stoker.kernel.queue import DEFAULTS
from stoker.kernel.window import next_open
from stoker.store import Filter, QueueView, Store

_MOST_HOLDERS = 1000


class Reason(enum.Enum):
    """Why a job does not run now. The values are stable words."""

    NOT_DUE = "not_due"
    RETRY = "retry"
    REPEATS = "repeats"
    WINDOW_CLOSED = "window_closed"
    QUEUE_PAUSED = "queue_paused"
    QUEUE_FULL = "queue_full"
    KEY_FULL = "key_full"
    NO_WORKER = "no_worker"
    WORKERS_BUSY = "workers_busy"
    UNKNOWN_TASK = "unknown_task"
    IN_LINE = "in_line"
    RUNNING = "running"
    CANCEL_REQUESTED = "cancel_requested"
    WORKER_LOST = "worker_lost"
    OUT_OF_TIME = "out_of_time"
    CHILDREN = "children"
    PARENT = "parent"
    REPLY = "reply"
    TICK = "tick"
    ENDED = "ended"


class Blocker(msgspec.Struct, frozen=True):
    """One thing that stands between a job and its run."""

    reason: Reason
    text: str
    until: int | None = None
    """When it is over by itself, if that is known."""
    jobs: tuple[int, ...] = ()
    """The jobs that make it so: those that hold the places, its children, its parent."""


class Scene(msgspec.Struct, frozen=True):
    """What stands around a job at one moment."""

    now: int
    queue: QueueView
    workers: Sequence[WorkerView] = ()
    holders: Sequence[Job] = ()
    """Jobs that hold places of its queue; of its key, if the key is what is short."""
    kin: Sequence[Job] = ()
    """Its parent if it is held for it; its children that have not ended."""
    knows: Callable[[str], bool] | None = None
    """Whether a task of that name is known, if the asker can tell."""


class Explanation(msgspec.Struct, frozen=True):
    """A job, and all that stands in its way; nothing, if it is about to run."""

    job: Job
    blockers: tuple[Blocker, ...]
    now: int

    @property
    def runs_at(self) -> int | None:
        """When it will run if everything else stays as it is; None if nobody can tell."""
        ends = [blocker.until for blocker in self.blockers]
        if self.job.state is not State.QUEUED or None in ends:
            return None
        return max((end for end in ends if end is not None), default=self.now)


def explain(store: Store, job_id: int, knows: Callable[[str], bool] | None = None) -> Explanation:
    """Why a job does not run, from what the store knows now."""
    job = store.get([job_id]).get(job_id)
    if job is None:
        raise NotFound(f"there is no job {job_id} (any more); ended jobs are kept for a while only")
    scene = look(store, job, knows)
    return Explanation(job, tuple(blockers(job, scene)), scene.now)


def look(store: Store, job: Job, knows: Callable[[str], bool] | None = None) -> Scene:
    """Gather what stands around a job."""
    views = store.survey([job.queue])
    queue = views[0] if views else QueueView(job.queue, DEFAULTS, {}, 0)
    return Scene(
        store.now(),
        queue,
        survey_workers(store),
        _holders(store, job, queue),
        _kin(store, job),
        knows,
    )


def _holders(store: Store, job: Job, queue: QueueView) -> list[Job]:
    if job.state is not State.QUEUED or not queue.settings.limited:
        return []
    by_key = job.key is not None and queue.settings.key_units(job.key) is not None
    found = store.find(
        Filter(
            states=(State.RUNNING, State.WAITING),
            queue=job.queue,
            key=job.key if by_key else None,
            limit=_MOST_HOLDERS,
        )
    )
    return [each for each in found if load(each)]


def _kin(store: Store, job: Job) -> list[Job]:
    if job.waits_for == WAITS_FOR_PARENT and job.parent_id is not None:
        return list(store.get([job.parent_id]).values())
    if job.waits_for == WAITS_FOR_CHILDREN:
        return store.find(Filter(states=tuple(sorted(LIVE)), parent_id=job.id))
    return []


# --- What stands in the way ----------------------------------------------------------------------


def blockers(job: Job, scene: Scene) -> list[Blocker]:
    """All that stands between a job and its run; what ends by itself comes first."""
    if job.state is State.QUEUED:
        return _queued(job, scene)
    if job.state is State.RUNNING:
        return _running(job, scene)
    return [_waiting(job, scene)] if job.state is State.WAITING else [_ended(job)]


def _queued(job: Job, scene: Scene) -> list[Blocker]:
    checks = (_timing, _pause, _room, _hands, _task)
    found = [blocker for check in checks if (blocker := check(job, scene)) is not None]
    others = scene.queue.counts.get(State.QUEUED, 0) - 1
    if not found and others > 0:
        text = f"it waits its turn; queued in {job.queue} besides it: {others}"
        return [Blocker(Reason.IN_LINE, text)]
    return found


def _timing(job: Job, scene: Scene) -> Blocker | None:
    windows, now = job.policy.windows, scene.now
    opens = now if windows is None else next_open(windows, now)
    if opens > now and job.due_at <= opens:
        return Blocker(Reason.WINDOW_CLOSED, "its time window is closed", opens)
    if job.due_at <= now:
        return None
    if job.attempt > 0:
        text = f"try {job.attempt} failed and it is to be tried again: {_first_line(job.error)}"
        return Blocker(Reason.RETRY, text, job.due_at)
    if job.policy.repeat is not None:
        text = f"it repeats ({job.policy.repeat}) and its next run is to come"
        return Blocker(Reason.REPEATS, text, job.due_at)
    put_off = f"it was put off: {_first_line(job.error)}" if job.error else "it is not due yet"
    return Blocker(Reason.NOT_DUE, put_off, job.due_at)


def _pause(job: Job, scene: Scene) -> Blocker | None:
    if not scene.queue.settings.paused:
        return None
    return Blocker(Reason.QUEUE_PAUSED, f"the queue {job.queue} is paused")


def _room(job: Job, scene: Scene) -> Blocker | None:
    settings = scene.queue.settings
    of_key = [each for each in scene.holders if each.key == job.key]
    key_used = sum(load(each) for each in of_key)
    answer = Turnstile(settings, scene.queue.used, lambda _: key_used).ask(job.key, job.weight)
    if answer is Admission.KEY_FULL:
        assert job.key is not None
        limit = settings.key_units(job.key)
        text = f"the key {job.key} is full: {_places(job, key_used, limit)}"
        return Blocker(Reason.KEY_FULL, text, jobs=_ids(of_key))
    if answer is Admission.QUEUE_FULL:
        used = _places(job, scene.queue.used, settings.units())
        text = f"the queue {job.queue} is full: {used}"
        return Blocker(Reason.QUEUE_FULL, text, jobs=_ids(scene.holders))
    return None


def _places(job: Job, used: int, limit: int | None) -> str:
    taken = f"{used / WHOLE_WEIGHT:g} of {(limit or 0) / WHOLE_WEIGHT:g} places are taken"
    return (
        taken if job.weight == WHOLE_WEIGHT else f"{taken}, it needs {job.weight / WHOLE_WEIGHT:g}"
    )


def _hands(job: Job, scene: Scene) -> Blocker | None:
    serving = [worker for worker in scene.workers if worker.alive and worker.serves(job.queue)]
    if not serving:
        return Blocker(Reason.NO_WORKER, f"no live worker serves the queue {job.queue}")
    if all(worker.busy for worker in serving):
        held = sum(worker.held for worker in serving)
        text = f"all workers of the queue are busy: {len(serving)} with {held} jobs in hand"
        return Blocker(Reason.WORKERS_BUSY, text)
    return None


def _task(job: Job, scene: Scene) -> Blocker | None:
    if scene.knows is None or scene.knows(job.name):
        return None
    return Blocker(Reason.UNKNOWN_TASK, f"the app knows no task called {job.name!r}")


def _running(job: Job, scene: Scene) -> list[Blocker]:
    worker = next((each for each in scene.workers if each.session == job.session), None)
    name = "a worker without a session" if job.session is None else f"session {job.session}"
    name = worker.name or name if worker is not None else name
    if job.session is not None and (worker is None or not worker.alive):
        text = f"its worker ({name}) is dead; {_recovery(job, scene)}"
        return [Blocker(Reason.WORKER_LOST, text)]
    if job.until is not None and job.until <= scene.now:
        return [Blocker(Reason.OUT_OF_TIME, f"its time is up; {_recovery(job, scene)}")]
    found = [Blocker(Reason.RUNNING, f"it runs now, try {job.attempt}, on {name}")]
    if job.cancel_requested:
        found.append(Blocker(Reason.CANCEL_REQUESTED, "it was asked to stop, and has not yet"))
    return found


_AFTER_LOSS = {
    OnLost.REQUEUE: "it will run again in its old place",
    OnLost.RETRY: "its retry policy will decide",
    OnLost.FAIL: "it will fail for good",
    OnLost.STAY: "it stays so until somebody looks after it",
}


def _recovery(job: Job, scene: Scene) -> str:
    if not any(worker.alive for worker in scene.workers):
        return "no worker is alive to recover it: start one"
    limit = job.policy.crash_limit
    if limit is not None and job.crashes + 1 >= limit and job.session is not None:
        return f"a live worker will see to it within seconds: it has lost {limit} workers and fails"
    return f"a live worker will see to it within seconds: {_AFTER_LOSS[job.policy.on_lost]}"


def _waiting(job: Job, scene: Scene) -> Blocker:
    if job.waits_for == WAITS_FOR_CHILDREN:
        text = f"it waits for {job.open_children} of its children to end"
        return Blocker(Reason.CHILDREN, text, jobs=_ids(scene.kin))
    if job.waits_for == WAITS_FOR_PARENT:
        state = scene.kin[0].state.name if scene.kin else "gone"
        text = f"it is held until its parent, job {job.parent_id} ({state}), has done its own part"
        return Blocker(Reason.PARENT, text, jobs=_ids(scene.kin))
    if job.waits_for == WAITS_FOR_TICK:
        text = "it is a schedule and never runs itself: it makes its next run"
        return Blocker(Reason.TICK, text, job.until)
    key = (job.waits_for or "").removeprefix(REPLY_PREFIX)
    return Blocker(Reason.REPLY, f"it waits for the reply {key!r}", job.until)


def _ended(job: Job) -> Blocker:
    why = f": {_first_line(job.error)}" if job.error else ""
    return Blocker(Reason.ENDED, f"it has ended, {job.state.name}{why}")


def _ids(jobs: Sequence[Job]) -> tuple[int, ...]:
    return tuple(job.id for job in jobs)


def _first_line(text: str | None) -> str:
    return (text or "no reason was given").partition("\n")[0]
