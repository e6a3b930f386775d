"""When a job will start, as far as time alone decides: due times, windows, hours and rates.

The time to come is played through with the turnstiles that claims meet. Places are taken to be
free in time: nobody knows when what runs will end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from stoker.kernel.admission import Admission, Turnstile, of_key, of_task
from stoker.kernel.job import Job
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.rules import fitted
from stoker.store import QueueView, Store
from stoker.store.turnstiles import Turnstiles

_PLENTY = 1e9
_MOST_PAINS = 600_000
"""So many questions to turnstiles are enough; whoever starts after that starts some day."""
_A_MOVE = 100
"""To reckon when a window opens again takes as long as so many questions."""
_YEAR = 366 * 86_400_000_000
"""Nobody looks further ahead than that after the job is due: its windows and those of its queue
may exclude one another."""


InOrder = Callable[[Sequence[Job]], list[Job]]
"""Jobs as they may start, if all are due."""


class Start(NamedTuple):
    """A job that will start, and when."""

    job: Job
    at: int


class Forecast(NamedTuple):
    """What will happen if nothing else does."""

    starts_at: int | None
    """When the job starts; None if nobody can tell."""
    before: Sequence[Start] = ()
    """Who starts before it."""


class Flows:
    """What is remembered for rates, and what is added as time goes on; nothing else counts."""

    def __init__(self, states: Mapping[tuple[str, str], str]) -> None:
        self._states = dict(states)

    def used(self, queue: str, meter: str) -> int:  # noqa: ARG002 - see above
        """The units that run, if that mattered."""
        return 0

    def flow(self, queue: str, meter: str) -> str:
        """What is remembered for a rate."""
        return self._states.get((queue, meter), "")

    def remember(self, turnstiles: Turnstiles) -> None:
        """What has started in one moment."""
        for turnstile in turnstiles:
            for queue, meter, state, _ in turnstile.flows():
                self._states[queue, meter] = state


def flows_of(store: Store, queue: QueueView, outer: QueueView | None, jobs: Iterable[Job]) -> Flows:
    """What is remembered for the rates that these jobs of a queue have to pass."""
    jobs, settings = list(jobs), queue.settings
    meters = {""}
    if settings.key_rate or settings.key_rates:
        meters |= {of_key(job.key) for job in jobs if job.key is not None}
    meters |= {of_task(job.name) for job in jobs if job.name in settings.task_rates}
    states = {(queue.name, m): s for m, s in store.flows(queue.name, sorted(meters)).items()}
    if outer is not None:
        states |= {(outer.name, m): s for m, s in store.flows(outer.name, [""]).items()}
    return Flows(states)


def forecast(
    job: Job,
    others: Sequence[Job],
    queue: QueueView,
    outer: QueueView | None,
    flows: Flows,
    now: int,
    in_order: InOrder,
) -> Forecast:
    """Let time pass until the job starts. `others` are queued in the same queue, due or not."""
    settings = {view.name: _timed(view.settings) for view in (queue, outer) if view is not None}
    opens_at = _hours(queue, outer)
    course = _Course(job.id, in_order((job, *others)))
    at, end = opens_at(now), max(now, job.due_at) + _YEAR
    while at is not None and at < end and course.pains < _MOST_PAINS:
        turnstiles = Turnstiles(lambda name: settings.get(name, DEFAULTS), flows, at)
        if course.passes(turnstiles.of(queue.name), at):
            return Forecast(at, course.started)
        flows.remember(turnstiles)
        if course.moved:
            course.line = in_order(course.line)
        openings = [gate.opens_at for gate in turnstiles]
        later = min((each for each in [*openings, course.next_due(at)] if each), default=None)
        at = None if later is None else opens_at(later)
    return Forecast(None, course.started)


class _Course:
    """The line of a queue, as it passes the turnstile from moment to moment."""

    def __init__(self, job_id: int, line: list[Job]) -> None:
        self._job_id = job_id
        self.line = line
        self.started: list[Start] = []
        self.pains = 0
        self.moved = False

    def passes(self, turnstile: Turnstile, at: int) -> bool:
        """Let all start who can in one moment, up to the job: does it start?"""
        waiting: list[Job] = []
        self.moved = False
        for each in self.line:
            if each.due_at > at or not self._enters(each, turnstile):
                waiting.append(each)
                continue
            opens = fitted(each.policy, at)
            if opens == at and each.id == self._job_id:
                return True
            self.started.append(Start(each, at))
            if opens > at:
                # It was taken, and goes back since its window is closed.
                waiting.append(msgspec.structs.replace(each, due_at=opens))
                self.moved = True
                self.pains += _A_MOVE
        self.line = waiting
        return False

    def _enters(self, job: Job, turnstile: Turnstile) -> bool:
        if turnstile.full and job.weight:
            return False
        self.pains += 1
        return turnstile.ask(job.key, job.name, job.weight) is Admission.ENTER

    def next_due(self, at: int) -> int | None:
        """When the next one falls due."""
        return min((each.due_at for each in self.line if each.due_at > at), default=None)


def _timed(settings: QueueSettings) -> QueueSettings:
    """The settings with room for everybody; who holds back whom is as it was."""
    return msgspec.structs.replace(
        settings,
        capacity=None,
        key_capacity=None,
        keys={},
        shares={},
        tasks=dict.fromkeys(settings.tasks, _PLENTY),
    )


def _hours(queue: QueueView, outer: QueueView | None) -> Callable[[int], int | None]:
    """When the queue is open, from a moment on."""
    around = None if outer is None else outer.settings
    if not queue.settings.keeps_hours and (around is None or not around.keeps_hours):
        return lambda at: at
    return lambda at: queue.settings.opens_at(at, around)
