"""Running one handler, and saying what came of it as a value."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec

from stoker.errors import BadInput, StoreError
from stoker.kernel.facts import check
from stoker.kernel.job import Job
from stoker.kernel.outcome import Awaits, Failed, Finished, Outcome, Released
from stoker.kernel.retry import Again, Failure, GiveUp, Verdict, consult, failure_of
from stoker.store.clock import Clock
from stoker.worker.arguments import Call
from stoker.worker.context import (
    AwaitsReply,
    Context,
    Retry,
    Signal,
    Snoozed,
    StopReason,
    enter,
)
from stoker.worker.tasks import Definition

logger = logging.getLogger("stoker.worker")

_MOST_EVIDENCE = 8000
PUT_OFF = 60 * 1_000_000
"""What nobody here can treat may be known elsewhere, or after the next deployment."""


class Middleware:
    """Something to be done around every handler. Override what you need.

    >>> from stoker import Stoker
    >>> from stoker.testing import harness
    >>> class Log(Middleware):
    ...     def before(self, context):
    ...         print("begins:", context.job.name)
    ...     def after(self, context, outcome):
    ...         print("ends:", type(outcome).__name__)
    >>> app = Stoker("memory:", middleware=[Log()])
    >>> @app.task(name="work")
    ... def work() -> None: ...
    >>> with harness(app) as stoker:
    ...     job = work.enqueue()
    ...     stoker.drain()
    begins: work
    ends: Finished
    1
    """

    in_worker: ClassVar[bool] = False
    """Where to be called for a handler in a process of its own: there, or (True) in the worker,
    which sees all jobs begin and end but nothing of what their handlers do."""

    def before(self, context: Context) -> None:
        """Called just before the handler, where it runs; raising fails the job."""

    def after(self, context: Context, outcome: Outcome) -> None:
        """Called when it is known what came of the handler, and before it is reported."""


class Performer:
    """Runs handlers, sync or async, with everything that goes around them."""

    def __init__(self, clock: Clock, middleware: Sequence[Middleware] = ()) -> None:
        self._now = clock
        self._middleware = tuple(middleware)

    def run(self, task: Definition, context: Context) -> Outcome | None:
        """Run a sync handler here. None: there is nobody to report to any more."""
        if context.cancelled or context.job.undecided:
            return self._unbegun(task, context)
        try:
            args, kwargs = self._begin(task, context)
            outcome: Outcome | None = self._finished(task, task.function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - every way out of a handler is an outcome
            outcome = self._left(task, context, error)
        return self._end(context, outcome)

    async def run_async(self, task: Definition, context: Context) -> Outcome | None:
        """Run an async handler here."""
        if context.cancelled or context.job.undecided:
            return self._unbegun(task, context)
        try:
            args, kwargs = self._begin(task, context)
            outcome: Outcome | None = self._finished(task, await task.function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - every way out of a handler is an outcome
            outcome = self._left(task, context, error)
        return self._end(context, outcome)

    def only(self, *, in_worker: bool) -> Performer:
        """One side of a handler in a process of its own, with the middleware that belongs there."""
        return Performer(self._now, [m for m in self._middleware if m.in_worker is in_worker])

    def around(
        self, task: Definition, context: Context, run: Callable[[], Outcome | None]
    ) -> Outcome | None:
        """Let a handler run elsewhere, with what is to be done here around it."""
        try:
            self._announce(context)
            outcome = run()
        except BaseException as error:  # noqa: BLE001 - every way out is an outcome
            outcome = self._left(task, context, error)
        return self._end(context, outcome)

    def _unbegun(self, task: Definition, context: Context) -> Outcome | None:
        """It was stopped while it waited for a runner, or it failed where its retry handler was
        not at hand: then the handler speaks first."""
        job = context.job
        if context.stop_reason is not None:
            return stopped(job, context.stop_reason)
        if task.retry_handler is None:
            logger.warning("job %d is put off: its retry handler is not known here", job.id)
            return Released(self._now() + PUT_OFF)
        failure = Failure(("stoker.Undecided",), job.error or "failed elsewhere")
        return Failed(failure, self._consult(task, job, failure))

    def _begin(self, task: Definition, context: Context) -> Call:
        enter(context)
        self._announce(context)
        args, kwargs = task.codec.decode(context.job.payload)
        if task.context_name is not None:
            kwargs[task.context_name] = context
        return args, kwargs

    def _announce(self, context: Context) -> None:
        for each in self._middleware:
            each.before(context)

    def _end(self, context: Context, outcome: Outcome | None) -> Outcome | None:
        ended_itself = context.finished and isinstance(outcome, Finished)
        if ended_itself:
            outcome = _within(context)
        if outcome is not None:
            for each in self._middleware:
                try:
                    each.after(context, outcome)
                except BaseException:  # whatever it is, the outcome must be reported
                    logger.exception("middleware failed after job %d", context.job.id)
        enter(None)
        return None if ended_itself and isinstance(outcome, Finished) else outcome

    @staticmethod
    def _finished(task: Definition, value: Any) -> Outcome:
        try:
            return Finished(task.result(value))
        except (TypeError, ValueError, RecursionError) as error:
            failure = failure_of(error)
            # The work is done: running it again would not make the result any better.
            return Failed(failure, GiveUp(f"its result cannot be kept as JSON: {failure.message}"))

    def _left(self, task: Definition, context: Context, error: BaseException) -> Outcome | None:
        reason = context.stop_reason
        if reason is not None and isinstance(error, Signal | asyncio.CancelledError):
            return stopped(context.job, reason)
        if isinstance(error, Snoozed):
            return Released(self._now() + error.delay)
        if isinstance(error, AwaitsReply):
            return Awaits(error.key, error.timeout, error.meta)
        failure = _with_evidence(error)
        job = context.job
        said = failure.message.partition("\n")[0]
        logger.info("job %d (%s) failed in try %d: %s", job.id, job.name, job.attempt, said)
        if isinstance(error, Retry):
            return Failed(failure, Again(self._now() + error.delay))
        if isinstance(error, BadInput):
            return Failed(failure, GiveUp(failure.message))
        return Failed(failure, self._consult(task, context.job, failure))

    def _consult(self, task: Definition, job: Job, failure: Failure) -> Verdict | None:
        if task.retry_handler is None:
            return None
        verdict = consult(task.retry_handler, job, failure, self._now())
        try:
            return _storable(verdict)
        except BadInput as error:
            return GiveUp(f"{failure.message} (given up, for the retry handler said: {error})")


def stopped(job: Job, reason: StopReason) -> Outcome | None:
    """What is reported of a handler that was asked to end."""
    if reason is StopReason.LOST:
        return None
    if reason is StopReason.SHUTDOWN:
        return Released()
    if reason is StopReason.TIMEOUT:
        limit = (job.policy.timeout or 0) / 1e6
        text = f"ran longer than its limit of {limit:g} s"
        return Failed(Failure(("stoker.Timeout",), text, timeout=True))
    return Failed(Failure(("stoker.Cancelled",), "cancelled on request"), GiveUp())


def _within(context: Context) -> Outcome:
    """What came of a handler that has ended its job in a transaction of its own."""
    try:
        if context.is_over():
            return Finished()
    except StoreError:
        return Released()  # if it was committed nobody will believe this, else it runs again
    text = "its end was not committed: finish() was called in a transaction that is still open"
    return Failed(Failure(("stoker.NotCommitted",), text))


def _storable(verdict: Verdict) -> Verdict:
    if isinstance(verdict, Again):
        said = {"payload": verdict.payload, "rank": verdict.rank, "meta": verdict.meta}
        check({"due_at": verdict.at, **{k: v for k, v in said.items() if v is not None}})
    if isinstance(verdict, GiveUp):
        check({"meta": verdict.reason})
    return verdict


def _with_evidence(error: BaseException) -> Failure:
    failure = failure_of(error)
    name = type(error).__name__
    # The first lines are the worker's own; what the reader wants is the end.
    trace = "".join(traceback.format_exception(error))[-_MOST_EVIDENCE:]
    safe = trace.encode("utf-8", "backslashreplace").decode()
    return msgspec.structs.replace(failure, message=f"{name}: {failure.message}\n{safe}")
