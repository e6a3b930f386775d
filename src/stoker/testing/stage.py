"""Where the jobs of an app under test run: here, one after the other, when the test says so."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator
from datetime import timedelta

from stoker.client import Stoker
from stoker.desk.throttling import LOOK_AGAIN
from stoker.errors import StokerError
from stoker.kernel.duration import micros
from stoker.kernel.job import LIVE, Job, State
from stoker.kernel.outcome import Outcome, Released
from stoker.store import Filter
from stoker.testing.clock import VirtualClock
from stoker.watch import run_chores
from stoker.worker.context import Context, Duration, Signal, StopReason
from stoker.worker.performing import PUT_OFF, Performer, stopped
from stoker.worker.tasks import Definition

_MOST_TRIES = 10_000
_MOST_AT_ONCE = 1000
_ALL = 1_000_000_000
_THE_JOBS = (Exception, SystemExit, Signal, asyncio.CancelledError)


class Rehearsal(Performer):
    """Runs handlers as a worker does; but Ctrl-C, or pytest.fail(), is meant for the test."""

    def _left(self, task: Definition, context: Context, error: BaseException) -> Outcome | None:
        if not isinstance(error, _THE_JOBS):
            raise error
        return super()._left(task, context, error)


class Stage:
    """Runs the jobs of an app in memory, by a clock that can be set."""

    def __init__(self, app: Stoker, clock: VirtualClock) -> None:
        self.app = app
        self.clock = clock
        self._loop = asyncio.Runner()
        self._asks_again = False

    def close(self) -> None:
        """End the event loop on which async handlers ran."""
        self._loop.close()

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
            self._report(context, await self._perform_async(task, context))
            tries += 1
        return tries

    def run_for(self, time: Duration) -> int:
        """Let so much time pass, stopping wherever something falls due to run it at its moment."""
        end, tries = self.clock() + micros(time), self.drain()
        for _ in self._moments(end):
            tries += self.drain()
        return tries

    async def run_for_async(self, time: Duration) -> int:
        """As `run_for`, for tests that are coroutines."""
        end, tries = self.clock() + micros(time), await self.drain_async()
        for _ in self._moments(end):
            tries += await self.drain_async()
        return tries

    # -- time ------------------------------------------------------------------------------

    def _moments(self, end: int) -> Iterator[int]:
        """Move the clock on to each moment at which something falls due, and to the end."""
        while (step := self._next_moment(end) - self.clock()) > 0:
            self.clock.advance(timedelta(microseconds=step))
            yield self.clock()

    def _next_moment(self, end: int) -> int:
        """When, after now, something falls due or a rate lets it; but no later than the end."""
        store = self.app.desk.store
        live = store.find(Filter(states=tuple(LIVE), limit=_ALL))
        moments = [job.due_at if job.state is State.QUEUED else job.until for job in live]
        if self._asks_again:
            moments.append(self.clock() + LOOK_AGAIN)
        moments.append(self.app.desk.dispatch.next_due(["*"]))
        return min([end, *(at for at in moments if at is not None and at > self.clock())])

    # -- jobs ------------------------------------------------------------------------------

    def _due(self, until_idle: bool) -> Iterator[tuple[Definition, Context]]:
        desk = self.app.desk
        self.app.ensure_throttlers()
        self._do_chores()
        for _ in range(_MOST_TRIES):
            wanted = 1 if until_idle else _MOST_AT_ONCE
            claimed = desk.dispatch.claim(["*"], wanted)
            claimed += self._admitted(wanted - len(claimed))
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

    def _admitted(self, room: int) -> list[Job]:
        """What the throttlers of the app let start."""
        throttling, jobs = self.app.desk.throttling, list[Job]()
        self._asks_again = False
        for queue, throttler in self.app.throttlers.items():
            while len(jobs) < room:
                left = room - len(jobs)
                asked = throttling.ask(queue, throttler, room=left, owner="testing")
                self._asks_again |= asked.pause is not None
                jobs += [] if asked.ruling is None else throttling.carry_out(asked.ruling)
                if asked.ruling is None or not asked.ruling.unfinished:
                    break
        return jobs

    def _do_chores(self) -> bool:
        """Was there anything to do?"""
        return any((run_chores(self.app.desk.clerk, "testing") or {}).values())

    def _put_off(self, job: Job) -> None:
        error = f"the app has no task called {job.name!r}"
        self._report(Context(job, self.app.desk), Released(self.clock() + PUT_OFF, error=error))

    @property
    def _performer(self) -> Performer:
        return Rehearsal(self.clock, self.app.middleware)

    def _perform(self, task: Definition, context: Context) -> Outcome | None:
        if task.is_async:
            _refuse_a_running_loop()
            return self._loop.run(self._performer.run_async(task, context))
        # In a context of its own, so that current() knows no job outside of a handler.
        return contextvars.copy_context().run(self._performer.run, task, context)

    async def _perform_async(self, task: Definition, context: Context) -> Outcome | None:
        if task.is_async:
            return await asyncio.create_task(self._performer.run_async(task, context))
        return await asyncio.to_thread(self._performer.run, task, context)

    def _report(self, context: Context, outcome: Outcome | None) -> None:
        job = context.job
        if job.until is not None and job.until <= self.clock():
            outcome = stopped(job, StopReason.TIMEOUT)
        if outcome is not None:
            (result,), _ = self.app.desk.report.many([(job, outcome)])
            if isinstance(result, StokerError):
                raise result


def _refuse_a_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise StokerError("an async handler cannot run here: in a coroutine, await drain_async()")
