"""Running one handler, and saying what came of it as a value."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Sequence
from typing import Any

import msgspec

from stoker.errors import BadInput
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


class Middleware:
    """Something to be done around every handler. Override what you need."""

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
        early = self._too_soon(task, context.job)
        if early is not None:
            return early
        try:
            args, kwargs = self._begin(task, context)
            outcome: Outcome | None = self._finished(task, task.function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - every way out of a handler is an outcome
            outcome = self._left(task, context, error)
        return self._end(context, outcome)

    async def run_async(self, task: Definition, context: Context) -> Outcome | None:
        """Run an async handler here."""
        early = self._too_soon(task, context.job)
        if early is not None:
            return early
        try:
            args, kwargs = self._begin(task, context)
            outcome: Outcome | None = self._finished(task, await task.function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - every way out of a handler is an outcome
            outcome = self._left(task, context, error)
        return self._end(context, outcome)

    def _too_soon(self, task: Definition, job: Job) -> Outcome | None:
        """A job that failed where its retry handler was not at hand: the handler speaks first."""
        if not job.undecided or task.retry_handler is None:
            return None
        failure = Failure(("stoker.Undecided",), job.error or "failed elsewhere")
        verdict = self._consult(task, job, failure)
        if isinstance(verdict, Again) and verdict.at <= self._now() and verdict.payload is None:
            return None
        return Failed(failure, verdict)

    def _begin(self, task: Definition, context: Context) -> Call:
        enter(context)
        for each in self._middleware:
            each.before(context)
        args, kwargs = task.codec.decode(context.job.payload)
        if task.context_name is not None:
            kwargs[task.context_name] = context
        return args, kwargs

    def _end(self, context: Context, outcome: Outcome | None) -> Outcome | None:
        if outcome is not None:
            for each in self._middleware:
                try:
                    each.after(context, outcome)
                except Exception:
                    logger.exception("middleware failed after job %d", context.job.id)
        return outcome

    @staticmethod
    def _finished(task: Definition, value: Any) -> Outcome:
        try:
            return Finished(task.result(value))
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
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
            return Awaits(error.key, error.timeout)
        failure = _with_evidence(error)
        if isinstance(error, Retry):
            return Failed(failure, Again(self._now() + error.delay))
        if isinstance(error, BadInput):
            return Failed(failure, GiveUp(failure.message))
        return Failed(failure, self._consult(task, context.job, failure))

    def _consult(self, task: Definition, job: Job, failure: Failure) -> Verdict | None:
        if task.retry_handler is None:
            return None
        return consult(task.retry_handler, job, failure, self._now())


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


def _with_evidence(error: BaseException) -> Failure:
    failure = failure_of(error)
    name = type(error).__name__
    # The first lines are the worker's own; what the reader wants is the end.
    trace = "".join(traceback.format_exception(error))[-_MOST_EVIDENCE:]
    safe = trace.encode("utf-8", "backslashreplace").decode()
    return msgspec.structs.replace(failure, message=f"{name}: {failure.message}\n{safe}")
