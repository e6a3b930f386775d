"""Why a job is not running, and when it will.

`scene.look` gathers what stands around a job; `blockers` is pure and says what of it stands in its
way: everything, not only what comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from stoker.desk.blocker import Blocker, Reason
from stoker.desk.known_tasks import unknown_here
from stoker.desk.meters import MOST_NAMED, stops
from stoker.desk.scene import Scene, look
from stoker.desk.workers import MOST_COUNTED, WorkerView
from stoker.errors import NotFound
from stoker.kernel.job import (
    REPLY_PREFIX,
    WAITS_FOR_CHILDREN,
    WAITS_FOR_PARENT,
    WAITS_FOR_TICK,
    Job,
    State,
)
from stoker.kernel.policy import OnLost
from stoker.kernel.rules import THROTTLED, fitted
from stoker.kernel.window import next_open
from stoker.store import QueueView, Store

_RATES = (Reason.TASK_RATE, Reason.KEY_RATE, Reason.QUEUE_RATE, Reason.OUTER_RATE)
_WORKERS_NAMED = 5
"""In one sentence."""
_NOT_SEEN = "who asks without a session, as over HTTP or Bedrock, is seen only while it has a job"


class Explanation(msgspec.Struct, frozen=True):
    """A job, and all that stands in its way; nothing, if it is about to run."""

    job: Job
    blockers: tuple[Blocker, ...]
    now: int
    outer: str | None = None
    """The queue that its own is within."""
    starts_at: int | None = None
    """When it may start as far as time decides: hours, windows and rates, one after the other."""

    @property
    def runs_at(self) -> int | None:
        """When it will run if everything else stays as it is; None if nobody can tell."""
        if any(blocker.until is None for blocker in self.blockers):
            return None
        return self.starts_at


def explain(store: Store, job_id: int, knows: Callable[[str], bool] | None = None) -> Explanation:
    """Why a job does not run, from what the store knows now."""
    job = store.get([job_id]).get(job_id)
    if job is None:
        raise NotFound(f"there is no job {job_id} (any more); ended jobs are kept for a while only")
    job, scene = look(store, job, knows)
    within = scene.queue.settings.within
    found = tuple(blockers(job, scene))
    return Explanation(job, found, scene.now, within, scene.starts_at)


# --- What stands in the way ----------------------------------------------------------------------


def blockers(job: Job, scene: Scene) -> list[Blocker]:
    """All that stands between a job and its run; what ends by itself comes first."""
    if job.state is State.QUEUED:
        return _queued(job, scene)
    if job.state is State.RUNNING:
        return _running(job, scene)
    return [_waiting(job, scene)] if job.state is State.WAITING else [_ended(job)]


def _queued(job: Job, scene: Scene) -> list[Blocker]:
    found = [*_timing(job, scene), *_hours(job, scene), *_pauses(job, scene)]
    for meter in scene.meters:
        found += stops(job, meter, scene.now)
    found += _meanwhile(job, scene, found)
    reckoned = not scene.more and any(blocker.reason in _RATES for blocker in found)
    if scene.line and not reckoned:
        found.append(_line(job, scene))
    found += _throttled(job, scene)
    last = (_hands(job, scene), _task(job, scene))
    return [*found, *(blocker for blocker in last if blocker is not None)]


def _timing(job: Job, scene: Scene) -> Iterator[Blocker]:
    now = scene.now
    opens = fitted(job.policy, now)
    closed = opens > now and job.due_at <= opens
    if job.due_at > now:
        why = _not_due(job)
        if not closed or why != _PLAINLY:
            yield Blocker(*why, job.due_at)
    if closed:
        yield Blocker(Reason.WINDOW_CLOSED, "its time window is closed", opens)


_PLAINLY = (Reason.NOT_DUE, "it is not due yet")


def _not_due(job: Job) -> tuple[Reason, str]:
    """Why it is due in time to come only."""
    next_run = job.policy.repeat is not None and job.attempt == 0
    at_its_time = next_run and job.due_at == fitted(job.policy, job.scheduled_at)
    error = job.error or ""
    if not at_its_time and (error.startswith(THROTTLED) or error == unknown_here(job.name)):
        return Reason.NOT_DUE, f"it was put off: {_first_line(error)}"
    if job.attempt > 0:
        text = f"try {job.attempt} failed and it is to be tried again: {_first_line(error)}"
        return Reason.RETRY, text
    if next_run:
        return Reason.REPEATS, f"it repeats ({job.policy.repeat}) and its next run is to come"
    return (Reason.NOT_DUE, f"it was put off: {_first_line(error)}") if error else _PLAINLY


def _hours(job: Job, scene: Scene) -> Iterator[Blocker]:
    """Who is closed when the job would begin, were it not for hours."""
    at = max(scene.now, fitted(job.policy, job.due_at))
    closed = "is closed" if at == scene.now else "is closed then"
    for view in _views(scene):
        settings = view.settings
        windows, opens_at = settings.windows, settings.opens_at(at)
        if windows is not None and next_open(windows, at) > at:
            yield Blocker(Reason.QUEUE_CLOSED, f"the queue {view.name} {closed}", opens_at)
        for closure in settings.maintenance:
            if closure.over_at(at) is not None:
                text = f"the queue {view.name} {closed} for maintenance ({closure})"
                yield Blocker(Reason.MAINTENANCE, text, opens_at)


def _meanwhile(job: Job, scene: Scene, found: Sequence[Blocker]) -> Iterator[Blocker]:
    """Hours that come between the job and the moment at which nothing else would keep it."""
    ends = [scene.now, *(blocker.until for blocker in found if blocker.until is not None)]
    if scene.starts_at is None or scene.starts_at <= max(ends):
        return
    closing = next((view for view in _views(scene) if view.settings.keeps_hours), None)
    if closing is not None:
        text = f"the queue {closing.name} is closed before its turn comes"
        yield Blocker(Reason.QUEUE_CLOSED, text, scene.starts_at)
    elif job.policy.windows is not None:
        text = "its time window is closed before its turn comes"
        yield Blocker(Reason.WINDOW_CLOSED, text, scene.starts_at)


def _views(scene: Scene) -> list[QueueView]:
    return [scene.queue] if scene.outer is None else [scene.queue, scene.outer]


def _throttled(job: Job, scene: Scene) -> Iterator[Blocker]:
    memory, name = scene.throttler, f"the throttler of the queue {job.queue}"
    if memory is None:
        return
    if memory.error is not None:
        text = f"{name} fails, and is asked again every few seconds: {_first_line(memory.error)}"
        yield Blocker(Reason.THROTTLER_FAILS, text)
    elif job.id in memory.reasons or job.id in memory.aside:
        why = f": {_first_line(memory.reasons[job.id])}" if job.id in memory.reasons else ""
        yield Blocker(Reason.THROTTLED, f"{name} holds it{why}")
    live = [worker for worker in scene.workers if worker.alive]
    if not any(job.queue in worker.info.throttlers for worker in live):
        yield Blocker(Reason.NO_THROTTLER, f"no live worker has {name}")


def _pauses(job: Job, scene: Scene) -> Iterator[Blocker]:
    if scene.queue.settings.paused:
        yield Blocker(Reason.QUEUE_PAUSED, f"the queue {job.queue} is paused")
    if scene.outer is not None and scene.outer.settings.paused:
        text = f"the queue {scene.outer.name}, which {job.queue} is within, is paused"
        yield Blocker(Reason.OUTER_PAUSED, text)


def _line(job: Job, scene: Scene) -> Blocker:
    before = f"{len(scene.line)} job goes" if len(scene.line) == 1 else f"{len(scene.line)} jobs go"
    before = f"at least {before}" if scene.more else before
    if not scene.queue.settings.fair:
        return Blocker(Reason.IN_LINE, f"it waits its turn: {before} before it")
    keys = {each.key for each in scene.line}
    others = len(keys - {job.key})
    whose = ["1 other key" if others == 1 else f"{others} other keys"] if others else []
    whose += ["its own"] if job.key in keys else []
    text = f"the keys of {job.queue} take turns: about {before} before it, of {' and '.join(whose)}"
    return Blocker(Reason.TURNS, text)


def _serving(job: Job, scene: Scene) -> list[WorkerView]:
    at_work = {each.session for each in scene.in_hand}
    return [
        worker
        for worker in scene.workers
        if worker.alive and (worker.serves(job.queue) or worker.session in at_work)
    ]


def _unseen(scene: Scene) -> tuple[int, ...]:
    """Jobs of its queue that somebody holds who has no session."""
    return _ids([each for each in scene.in_hand if each.session is None])


def _hands(job: Job, scene: Scene) -> Blocker | None:
    serving, unseen = _serving(job, scene), _unseen(scene)
    if not serving and not unseen:
        text = f"no live worker is known to serve the queue {job.queue}; {_NOT_SEEN}"
        return Blocker(Reason.NO_WORKER, text)
    if not serving:
        text = f"nobody can say when the queue {job.queue} is asked for again: {_NOT_SEEN}"
        return Blocker(Reason.WORKERS_UNSEEN, text, jobs=unseen)
    if not unseen and all(worker.busy for worker in serving):
        held = f"{sum(worker.held for worker in serving)}"
        if any(worker.held == MOST_COUNTED for worker in serving):
            held = f"at least {held}"
        text = f"all workers of the queue are busy: {len(serving)} with {held} jobs in hand"
        return Blocker(Reason.WORKERS_BUSY, text)
    return None


def _task(job: Job, scene: Scene) -> Blocker | None:
    """What workers say of themselves counts; where that decides nothing, the app that asks."""
    serving = _serving(job, scene)
    told = [scene.known.get(worker.info.tasks or "") for worker in serving]
    if any(names is not None and job.name in names for names in told):
        return None
    if serving and None not in told and not _unseen(scene):
        names = [worker.name or f"session {worker.session}" for worker in serving]
        text = f"no live worker of the queue {job.queue} knows a task called {job.name!r}"
        return Blocker(Reason.UNKNOWN_TASK, f"{text}: {_listed(sorted(names))}")
    if scene.knows is None or scene.knows(job.name):
        return None
    return Blocker(Reason.UNKNOWN_TASK, f"the app knows no task called {job.name!r}")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _WORKERS_NAMED
    return ", ".join(names[:_WORKERS_NAMED]) + (f" and {more} more" if more > 0 else "")


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
        return "no live worker is known that could see to it: start one, or a server"
    limit = job.policy.crash_limit
    if limit is not None and job.crashes + 1 >= limit and job.session is not None:
        return f"a live worker will see to it within seconds: it has lost {limit} workers and fails"
    return f"a live worker will see to it within seconds: {_AFTER_LOSS[job.policy.on_lost]}"


def _waiting(job: Job, scene: Scene) -> Blocker:
    if job.waits_for == WAITS_FOR_CHILDREN:
        text = f"it waits for {job.open_children} of its children to end"
        more = len(scene.kin) > MOST_NAMED
        return Blocker(Reason.CHILDREN, text, jobs=_ids(scene.kin[:MOST_NAMED]), more=more)
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
