"""Schedules: live jobs that repeat, and those that are paused.

A paused schedule is no job. What it was is kept in a note, from which it is made anew; so a worker
that is told to look after its schedules can see that this one is not to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from stoker.desk.clerk import Clerk, twin_error
from stoker.desk.intake import Placement
from stoker.errors import Contended, NotFound
from stoker.kernel import control
from stoker.kernel.change import Change, Note, NoteWrite
from stoker.kernel.job import WAITS_FOR_TICK, Job, State, afresh
from stoker.kernel.policy import Policy
from stoker.kernel.repeat import first_due, next_due, parse_repeat, preview
from stoker.kernel.rules import fitted
from stoker.kernel.unique import SCHEDULE_PREFIX, schedule_key
from stoker.store import Filter
from stoker.store.paging import every

_PAUSED = "schedules-paused"
_LIVE = (State.QUEUED, State.RUNNING, State.WAITING)
_ROUNDS = 20
_REPLACE = msgspec.structs.replace
_REGISTER = msgspec.json.Decoder(dict[str, Job])


class Schedule(msgspec.Struct, frozen=True):
    """One schedule: its job, or what its job will be when it goes on."""

    name: str
    job: Job
    paused: bool = False

    @property
    def repeat(self) -> str:
        """When it runs, as text."""
        assert self.job.policy.repeat is not None
        return self.job.policy.repeat

    def upcoming(self, count: int, *, now: int) -> list[int]:
        """The next runs, if each starts on time and takes no time."""
        first = self._next(now)
        later = preview(parse_repeat(self.repeat), after=first, count=count - 1)
        return [fitted(self.job.policy, at) for at in (first, *later)]

    def _next(self, now: int) -> int:
        repeat, job = parse_repeat(self.repeat), self.job
        if self.paused:
            return first_due(repeat, now=now)
        if _is_under_way(job):
            return next_due(
                repeat, scheduled=job.scheduled_at, started=job.started_at, finished=now
            )
        return job.due_at


def _is_under_way(job: Job) -> bool:
    """Has a run begun that is not over: running, waiting for others, or to be tried again?"""
    if job.state is State.QUEUED:
        return job.attempt > 0
    return job.waits_for != WAITS_FOR_TICK


def schedule_name(job: Job) -> str:
    """What a schedule is called: after its task, its unique key or, at last, its id."""
    return (job.unique_key or str(job.id)).removeprefix(SCHEDULE_PREFIX)


class Schedules:
    """Looking at schedules, and making them stop and go."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk

    def all(self) -> list[Schedule]:
        """Every schedule, by name."""
        live = [Schedule(schedule_name(job), job) for job in self._repeating()]
        paused = [Schedule(name, job, paused=True) for name, job in self.paused().items()]
        return sorted([*live, *paused], key=lambda schedule: schedule.name)

    def get(self, name: str) -> Schedule:
        """The schedule of that name; the one of a task is found without a search."""
        for unique_key in (schedule_key(name), name):
            for job in self._clerk.store.find(Filter(states=_LIVE, unique_key=unique_key, limit=1)):
                if job.policy.repeat is not None:
                    return Schedule(name, job)
        for schedule in self.all():
            if name in (schedule.name, schedule.job.name):
                return schedule
        raise NotFound(f"there is no schedule {name!r}")

    def paused(self) -> dict[str, Job]:
        """The paused schedules by name."""
        return self._register()[0]

    def pause(self, name: str) -> Schedule:
        """Let there be no further run; one that is going on may end."""
        schedule = self.get(name)
        if schedule.paused:
            return schedule
        kept = _definition(schedule.job)

        def rule(job: Job) -> Change:
            now, settings = self._clerk.store.now(), self._clerk.settings(job.queue)
            if _is_under_way(job):
                stopped = control.edit(job, {"policy": _REPLACE(job.policy, repeat=None)})
            else:
                stopped = control.cancel(job, now=now, settings=settings)
            return stopped | self._put(schedule.name, kept)

        self._clerk.decide(schedule.job.id, rule)
        return Schedule(schedule.name, kept, paused=True)

    def resume(self, name: str) -> Schedule:
        """Let a paused schedule go on, from now."""
        schedule = self.get(name)
        for _ in range(_ROUNDS):
            if not schedule.paused:
                return schedule
            change = control.enqueue(schedule.job, now=self._clerk.store.now())
            receipt = self._clerk.transact([change | self._put(schedule.name, None)]).receipts[0]
            if receipt.ok:
                return Schedule(schedule.name, _REPLACE(change.inserts[0], id=receipt.ids[0]))
            if receipt.twins:
                self._go_on(schedule, twin_error(receipt).existing_id)
            schedule = self.get(schedule.name)
        raise Contended(f"the schedule {name!r} keeps changing; try again")

    def redefine(self, name: str, *, queue: str, policy: Policy) -> Schedule | None:
        """Let the schedule of a task be as its code says by now; None: there is none.

        A paused one stays paused. One whose run is going on takes the new repeat at its end, and
        stays in its old queue until then: whoever wants it elsewhere has to ask again.
        """
        for _ in range(_ROUNDS):
            paused, revision = self._register()
            kept = paused.get(name)
            if kept is None:
                return self._redefine_live(name, queue, policy)
            wanted = _REPLACE(kept, queue=queue, policy=policy)
            news = _registered({**paused, name: wanted}, revision)
            if wanted == kept or self._clerk.transact([news]).receipts[0].ok:
                return Schedule(name, wanted, paused=True)
        raise Contended(f"the schedule {name!r} keeps changing; try again")

    def _redefine_live(self, name: str, queue: str, policy: Policy) -> Schedule | None:
        store = self._clerk.store

        def rule(job: Job) -> Change:
            if job.ended:
                raise NotFound(f"job {job.id} is over")
            return control.edit(job, _redefinition(job, queue, policy, now=store.now()))

        living = Filter(states=_LIVE, unique_key=schedule_key(name), limit=1)
        for job in store.find(living):
            if not _redefinition(job, queue, policy, now=store.now()):
                return Schedule(name, job)
            with suppress(NotFound):
                return Schedule(name, self._clerk.decide(job.id, rule))
        return None

    def run(self, name: str) -> Placement:
        """One run now, beside the schedule and without disturbing it."""
        job = self.get(name).job
        once = _REPLACE(_definition(job), unique_key=None, policy=_REPLACE(job.policy, repeat=None))
        change = control.enqueue(once, now=self._clerk.store.now())
        return Placement(self._clerk.transact([change]).receipts[0].ids[0], fresh=True)

    def _go_on(self, schedule: Schedule, run: int) -> None:
        """The run during which it was paused still goes on: it is to repeat after all."""

        def rule(job: Job) -> Change:
            if job.ended:
                raise NotFound(f"job {run} is over")
            kept = _adapted(job, schedule.job.queue, schedule.job.policy)
            return control.edit(job, kept) | self._put(schedule.name, None)

        with suppress(NotFound):
            self._clerk.decide(run, rule)

    def _repeating(self) -> Iterator[Job]:
        return every(self._clerk.store, Filter(states=_LIVE, repeating=True))

    # -- the register of paused ones -------------------------------------------------------

    def _register(self) -> tuple[dict[str, Job], int]:
        note: Note | None = self._clerk.store.notes([_PAUSED]).get(_PAUSED)
        return ({}, 0) if note is None else (_REGISTER.decode(note.value), note.revision)

    def _put(self, name: str, job: Job | None) -> Change:
        """The register with one schedule more, or less; guarded against others who write it."""
        paused, revision = self._register()
        paused.pop(name, None)
        if job is not None:
            paused[name] = job
        return _registered(paused, revision)


def _registered(paused: dict[str, Job], revision: int) -> Change:
    value = msgspec.json.encode(paused) if paused else None
    return Change(notes=(NoteWrite(_PAUSED, value, expect=revision),))


def _redefinition(job: Job, queue: str, policy: Policy, *, now: int) -> dict[str, Any]:
    """What is to change in a schedule that is meant to be like this: also the time of its next
    run, unless that has begun."""
    changes = _adapted(job, queue, policy)
    if job.policy.repeat != policy.repeat and not _is_under_way(job):
        assert policy.repeat is not None
        changes["due_at"] = first_due(parse_repeat(policy.repeat), now=now)
    return changes


def _adapted(job: Job, queue: str, policy: Policy) -> dict[str, Any]:
    """What makes a job like this, as far as that can be: one that is running keeps its queue."""
    changes: dict[str, Any] = {}
    if job.policy != policy:
        changes["policy"] = policy
    if job.queue != queue and job.state is not State.RUNNING:
        changes["queue"] = queue
    return changes


def _definition(job: Job) -> Job:
    """What is needed to make the schedule anew."""
    return _REPLACE(afresh(job), unique_key=job.unique_key)
