"""For your own tests: your app in memory, its clock in your hand, its jobs run when you say so.

    with harness(app) as stoker:
        sign_up("ann")                          # your code, which enqueues
        stoker.assert_enqueued(welcome, args=("ann",))
        stoker.drain()                          # everything due runs, here in this thread
        stoker.clock.advance("1d")
        stoker.drain()                          # and what has fallen due since

What runs is the real thing: only the store, the clock and the dice are others.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from stoker.client import JobHandle, Stoker, Task
from stoker.desk import Desk
from stoker.errors import BadInput, StokerError
from stoker.kernel.duration import micros, text
from stoker.kernel.job import LIVE, Job, State
from stoker.kernel.outcome import Outcome, Released
from stoker.store import Filter
from stoker.store.clock import wall_clock
from stoker.store.memory import MemoryStore
from stoker.watch import run_chores
from stoker.worker.context import Context, StopReason
from stoker.worker.performing import PUT_OFF, Performer, stopped
from stoker.worker.tasks import Definition

__all__ = ["Harness", "VirtualClock", "harness"]

R = TypeVar("R")
Arguments = Sequence[Any] | Mapping[str, Any]

_MOST_TRIES = 10_000
_MOST_AT_ONCE = 1000
_SHOWN = 10
_ALL = 1_000_000_000


class VirtualClock:
    """Time that passes only when it is told to.

    >>> clock = VirtualClock(datetime(2030, 1, 1, tzinfo=UTC))
    >>> clock.advance("1h30m")
    >>> clock.now.isoformat()
    '2030-01-01T01:30:00+00:00'
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._micros = wall_clock() if start is None else _micros_of(start)

    def __call__(self) -> int:
        """The time it shows, as stores count it: in UTC microseconds."""
        return self._micros

    @property
    def now(self) -> datetime:
        """The time it shows."""
        return datetime.fromtimestamp(self._micros // 1_000_000, UTC) + timedelta(
            microseconds=self._micros % 1_000_000
        )

    def advance(self, by: str | int | float | timedelta) -> None:
        """Let time pass: "10m", a timedelta or a number of seconds. Nothing runs until `drain`."""
        self._micros += micros(by)

    def move_to(self, moment: datetime) -> None:
        """Let time pass until then."""
        target = _micros_of(moment)
        if target < self._micros:
            raise BadInput(f"the clock shows {self.now} and cannot go back to {moment}")
        self._micros = target


class Harness:
    """An app under test. `harness` makes it; `app.desk` and `clock` are what it works with."""

    def __init__(self, app: Stoker, clock: VirtualClock) -> None:
        self.app = app
        self.clock = clock
        self._performer = Performer(clock, app.middleware)
        self._loop = asyncio.Runner()

    def close(self) -> None:
        """End the event loop on which async handlers ran."""
        self._loop.close()

    # -- running ---------------------------------------------------------------------------

    def drain(self, *, until_idle: bool = True) -> int:
        """Run the jobs that are due, one after the other, and tell how many tries that took.

        Jobs that fall due by it, such as those a handler enqueues, run too. With
        `until_idle=False` they stay for the next time, and those that are due now start together,
        as far as the capacity of their queues lets them.
        """
        tries = 0
        for task, context in self._due(until_idle):
            self._report(context, self._perform(task, context))
            tries += 1
        return tries

    async def drain_async(self, *, until_idle: bool = True) -> int:
        """As `drain`, for tests that are coroutines: async handlers run on the test's own loop."""
        tries = 0
        for task, context in self._due(until_idle):
            if task.is_async:
                outcome = await asyncio.create_task(self._performer.run_async(task, context))
            else:
                outcome = await asyncio.to_thread(self._performer.run, task, context)
            self._report(context, outcome)
            tries += 1
        return tries

    def run_for(self, time: str | int | float | timedelta) -> int:
        """Let so much time pass, stopping wherever something falls due to run it at its moment."""
        end, tries = self.clock() + micros(time), self.drain()
        while (step := self._next_moment(end) - self.clock()) > 0:
            self.clock.advance(timedelta(microseconds=step))
            tries += self.drain()
        return tries

    def _next_moment(self, end: int) -> int:
        """When, after now, something falls due; but no later than the end."""
        live = self._find(states=tuple(LIVE))
        moments = [job.due_at if job.state is State.QUEUED else job.until for job in live]
        return min([end, *(at for at in moments if at is not None and at > self.clock())])

    def _due(self, until_idle: bool) -> Iterator[tuple[Definition, Context]]:
        desk = self.app.desk
        self._do_chores()
        for _ in range(_MOST_TRIES):
            claimed = desk.dispatch.claim(["*"], 1 if until_idle else _MOST_AT_ONCE)
            for job in claimed:
                task = self.app.tasks.get(job.name)
                if task is None:
                    self._put_off(job)
                else:
                    yield task, Context(job, desk)
            if not until_idle or not (claimed or self._do_chores()):
                return
        raise StokerError(
            f"not idle after {_MOST_TRIES:,} tries: does a job enqueue itself, or repeat, at once? "
            "drain(until_idle=False) runs what is due now and no more"
        )

    def _do_chores(self) -> bool:
        """Was there anything to do?"""
        return any((run_chores(self.app.desk.clerk, "testing") or {}).values())

    def _put_off(self, job: Job) -> None:
        error = f"the app has no task called {job.name!r}"
        self._report(Context(job, self.app.desk), Released(self.clock() + PUT_OFF, error=error))

    def _perform(self, task: Definition, context: Context) -> Outcome | None:
        if task.is_async:
            _refuse_a_running_loop()
            return self._loop.run(self._performer.run_async(task, context))
        # In a context of its own, so that current() knows no job outside of a handler.
        return contextvars.copy_context().run(self._performer.run, task, context)

    def _report(self, context: Context, outcome: Outcome | None) -> None:
        job = context.job
        if job.until is not None and job.until <= self.clock():
            outcome = stopped(job, StopReason.TIMEOUT)
        if outcome is not None:
            (result,), _ = self.app.desk.report.many([(job, outcome)])
            if isinstance(result, StokerError):
                raise result

    # -- looking ---------------------------------------------------------------------------

    def jobs(
        self,
        state: State | None = None,
        name: str | Task[..., Any] | None = None,
        queue: str | None = None,
    ) -> list[Job]:
        """Jobs by what is known of them, in the order in which they came."""
        named = name.name if isinstance(name, Task) else name
        return self._find(states=() if state is None else (state,), name=named, queue=queue)

    def _find(self, **facts: Any) -> list[Job]:
        return self.app.desk.store.find(Filter(**facts, limit=_ALL))

    # -- asserting -------------------------------------------------------------------------

    def assert_enqueued(
        self, task: Task[..., Any], args: Arguments | None = None, *, count: int | None = None
    ) -> list[JobHandle[Any]]:
        """There are jobs of this task that have not ended: at least one, or exactly `count`.

        `args` are the arguments as they were given, by place or by name.
        """
        wanted = None if args is None else _payload(task, args)
        there = [job for job in self.jobs(name=task) if job.state in LIVE]
        found = [job for job in there if wanted is None or _same(job.payload, wanted)]
        if len(found) != count if count is not None else not found:
            amount = "a job" if count is None else f"{count} jobs"
            with_args = "" if args is None else f" with {args!r}"
            raise AssertionError(
                f"expected {amount} of {task.name}{with_args} to be enqueued, found {len(found)}; "
                + self._shown(there or self.jobs())
            )
        return [JobHandle(self.app, job.id, task.returns) for job in found]

    def assert_finished(self, handle: JobHandle[R]) -> R:
        """The job has finished; returns what its handler returned."""
        self._assert_state(handle.job, State.FINISHED)
        return handle.result

    def assert_failed(self, handle: JobHandle[Any], match: str | None = None) -> str:
        """The job has failed for good; `match` is searched for in its error, which is returned."""
        job = handle.job
        self._assert_state(job, State.FAILED)
        error = job.error or ""
        if match is not None and not re.search(match, error):
            raise AssertionError(f"job {job.id} failed, but not with {match!r}:\n{error}")
        return error

    def assert_nothing_left(self) -> None:
        """No job is still to run, now or later. Schedules that wait for their hour do not count."""
        left = [job for job in self._find(states=tuple(LIVE)) if job.policy.repeat is None]
        if left:
            amount = "1 job is" if len(left) == 1 else f"{len(left)} jobs are"
            raise AssertionError(f"{amount} left; {self._shown(left)}")

    def _assert_state(self, job: Job, state: State) -> None:
        if job.state is not state:
            raise AssertionError(
                f"expected job {job.id} ({job.name}) to be {state.name}: {self._line(job)}"
                + (f"\n{job.error}" if job.error else "")
            )

    def _shown(self, jobs: list[Job]) -> str:
        if not jobs:
            return "there are no jobs at all"
        lines = [self._line(job) for job in jobs[:_SHOWN]]
        more = [f"... and {len(jobs) - _SHOWN} more"] if len(jobs) > _SHOWN else []
        return "\n  ".join(["there are:", *lines, *more])

    def _line(self, job: Job) -> str:
        payload = job.payload[:200].decode(errors="replace")
        facts = [f"job {job.id} {job.state.name} {job.name} {payload}"]
        if job.state is State.QUEUED and job.due_at > self.clock():
            facts.append(f"due in {text(job.due_at - self.clock())}")
        if job.attempt:
            facts.append(f"after try {job.attempt}")
        if job.waits_for is not None:
            facts.append(f"waits for {job.waits_for}")
        if job.error:
            facts.append(job.error.partition("\n")[0])
        return ", ".join(facts)


@contextmanager
def harness(app: Stoker, *, start: datetime | None = None) -> Iterator[Harness]:
    """Let an app work in memory, by a clock of its own, until the end of the `with` block.

    The clock starts at `start`, or now. The dice always fall on 0, so that retries wait for
    exactly as long as their policy says at most.

    >>> app = Stoker("sqlite:///jobs.db")
    >>> @app.task(name="double")
    ... def double(number: int) -> int:
    ...     return 2 * number
    >>> with harness(app) as stoker:
    ...     job = double.options(delay="10m").enqueue(21)
    ...     stoker.drain()
    ...     stoker.clock.advance("10m")
    ...     stoker.drain()
    ...     stoker.assert_finished(job)
    0
    1
    42
    """
    clock = VirtualClock(start)
    before = app.sit_at(Desk(MemoryStore(clock), dice=lambda: 0.0))
    stoker = Harness(app, clock)
    try:
        yield stoker
    finally:
        stoker.close()
        app.sit_at(before)


def _refuse_a_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise StokerError("an async handler cannot run here: in a coroutine, await drain_async()")


def _micros_of(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise BadInput("a moment needs a time zone, e.g. datetime(2030, 1, 1, tzinfo=UTC)")
    return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)


def _payload(task: Task[..., Any], args: Arguments) -> bytes:
    call = task.call(**args) if isinstance(args, Mapping) else task.call(*args)
    return call.job.payload


def _same(payload: bytes, wanted: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(payload) == msgspec.json.decode(wanted))
    except msgspec.DecodeError:
        return payload == wanted
