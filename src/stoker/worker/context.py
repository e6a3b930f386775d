"""What a handler can see of its job, and do about it, while it runs."""

from __future__ import annotations

import enum
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, overload

import msgspec

from stoker.desk.children import Children
from stoker.desk.signing import callback_url
from stoker.errors import BadInput, StokerError
from stoker.kernel.duration import micros
from stoker.kernel.facts import check
from stoker.kernel.in_json import json_of
from stoker.kernel.job import Job

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stoker.desk import Desk

T = TypeVar("T")
Duration = str | int | float | timedelta


class Draft(Protocol):
    """Something that stands for a job yet to be enqueued, such as a task's call."""

    @property
    def job(self) -> Job:
        """The job it stands for."""


class Signal(BaseException):
    """Leaves a handler without failing it. Not an Exception, so that no handler's `except
    Exception` swallows it."""


class Snoozed(Signal):
    """The handler put its job off."""

    def __init__(self, delay: int) -> None:
        self.delay = delay


class AwaitsReply(Signal):
    """The handler lets its job wait for an answer from outside."""

    def __init__(self, key: str, timeout: int | None, meta: str | None = None) -> None:
        self.key = key
        self.timeout = timeout
        self.meta = meta


class Stopped(Signal):
    """The handler was asked to end, and did."""


class StopReason(enum.Enum):
    """Why a handler is asked to end."""

    CANCELLED = "the job was cancelled"
    TIMEOUT = "the job ran out of time"
    SHUTDOWN = "the worker is shutting down"
    LOST = "the lease was lost"


class Retry(StokerError):
    """Raised by a handler to be tried again after a time of its own choosing.

    >>> raise Retry("30s")
    Traceback (most recent call last):
    stoker.worker.context.Retry: to be tried again in 30s
    """

    code = "retry"

    def __init__(self, after: Duration, reason: str | None = None) -> None:
        super().__init__(reason or f"to be tried again in {after}")
        self.delay = micros(after)


class Context:
    """One try at a job, from the handler's side.

    A handler gets it by naming a parameter of this type, or from `current()`.

    >>> from stoker import Stoker
    >>> from stoker.testing import harness
    >>> app = Stoker("memory:")
    >>> @app.task
    ... def count(done: int = 0, ctx: Context | None = None) -> str:
    ...     if done < 3:
    ...         ctx.update({"done": done + 1})
    ...         ctx.snooze("1m")
    ...     return f"job {ctx.job.id}, try {ctx.attempt}: {done}"
    >>> with harness(app) as stoker:
    ...     job = count.enqueue()
    ...     stoker.run_for("1h"), job.result
    (4, 'job 1, try 1: 3')
    """

    def __init__(self, job: Job, desk: Desk) -> None:
        self.job = job
        self._desk = desk
        self._answered: str | None = None
        self.finished = False
        """Has the handler ended its job itself, in a transaction of its own?"""
        self.stop_reason: StopReason | None = None

    @property
    def attempt(self) -> int:
        """1 for the first try, 2 for the first retry ..."""
        return self.job.attempt

    @property
    def token(self) -> int:
        """The lease's token: pass it on where a late write must be refused."""
        assert self.job.token is not None
        return self.job.token

    @property
    def cancelled(self) -> bool:
        """Should the handler end? `stop_reason` tells why."""
        return self.stop_reason is not None

    def stop(self, reason: StopReason) -> None:
        """Ask the handler to end; the first reason counts. Called by the worker."""
        if self.stop_reason is None:
            self.stop_reason = reason

    def check(self) -> None:
        """Leave the handler here if it should end."""
        if self.stop_reason is not None:
            raise Stopped

    def progress(self, fraction: float) -> None:
        """Tell how far the work has come, from 0 to 1."""
        self.job = self._desk.report.touch(self.job, progress=fraction)

    def renew(self, visibility: Duration) -> None:
        """Move the deadline of a lease that has one."""
        self.job = self._desk.report.touch(self.job, visibility=micros(visibility))

    def update(self, payload: object) -> None:
        """Replace the job's payload, so that the next try begins with the new one."""
        encoded = payload if isinstance(payload, bytes) else json_of("the payload", payload)
        self.job = self._desk.report.rewrite(self.job, encoded)

    def spawn(self, children: Iterable[Job | Draft]) -> list[int]:
        """Children that run when this handler has finished; then the handler runs again."""
        return self._desk.intake.spawn(self.job, _jobs_of(children))

    @property
    def children(self) -> Children:
        """What became of this job's children, when it runs again after them."""
        return Children(self._desk.store, self.job)

    def finish(self, result: object = None, *, within: object) -> None:
        """End the job in a transaction of the handler's own, on a connection to the store's
        database: what it has written and the end of the job are committed together.

        If the job is somebody else's by now `LeaseLost` is raised, and the transaction cannot be
        committed. What the handler returns afterwards does not count.
        """
        encoded = None if result is None else json_of("the result", result)
        self._desk.report.finish_within(within, self.job, encoded)
        self.finished = True

    async def afinish(self, result: object = None, *, within: object) -> None:
        """As `finish`, for a connection that is awaited."""
        encoded = None if result is None else json_of("the result", result)
        await self._desk.report.afinish_within(within, self.job, encoded)
        self.finished = True

    def is_over(self) -> bool:
        """Was the transaction committed in which the handler ended its job?"""
        there = self._desk.store.get([self.job.id]).get(self.job.id)
        return there is None or there.token != self.job.token

    def snooze(self, delay: Duration) -> NoReturn:
        """Leave here and come back later, from the beginning; no try is counted."""
        raise Snoozed(micros(delay))

    def expect_reply(self, key: str) -> None:
        """The question with this key is about to be sent: what came before is no answer to it.

        For keys that are used more than once. To be said before each question, and not when the
        handler runs again for its answer, which it would throw away.
        """
        self._desk.control.expect_reply(key)

    @overload
    def wait_for_reply(self, key: str, *, timeout: Duration | None = None) -> Any: ...

    @overload
    def wait_for_reply(
        self, key: str, *, timeout: Duration | None = None, as_type: type[T]
    ) -> T: ...

    def wait_for_reply(
        self, key: str, *, timeout: Duration | None = None, as_type: Any = Any
    ) -> Any:
        """The answer with this key; until it comes the job holds no worker.

        The handler leaves here and runs again, from the beginning, when the answer has come.
        A job remembers its last answer only: keep what came before with `update`.
        """
        check({"key": key})
        if not key:
            raise BadInput("a reply needs a key that both sides can name; it cannot be empty")
        if self.job.reply is None or self._answered not in (None, key):
            raise AwaitsReply(key, None if timeout is None else micros(timeout))
        self._answered = key
        return msgspec.json.decode(self.job.reply, type=as_type)

    def callback_url(self, key: str, *, within: Duration = "7d") -> str:
        """A URL to send along with a request: whoever posts JSON there answers this key.

        It is signed, and good for a while. The environment says which server takes the answers,
        and its secret: STOKER_CALLBACK_URL and STOKER_CALLBACK_SECRET.
        """
        return callback_url(key, self._desk.store.now() + micros(within))


def _jobs_of(children: Iterable[Job | Draft]) -> list[Job]:
    try:
        jobs = [child if isinstance(child, Job) else child.job for child in children]
    except (TypeError, AttributeError) as error:
        raise BadInput(
            f"children are a list of calls, made with task.call(...), or of jobs: {error}"
        ) from error
    return jobs


_current: ContextVar[Context | None] = ContextVar("stoker_context", default=None)


def current() -> Context:
    """The context of the job that runs here.

    >>> current()
    Traceback (most recent call last):
    stoker.errors.StokerError: no job runs here: current() works only inside a handler
    """
    context = _current.get()
    if context is None:
        raise StokerError("no job runs here: current() works only inside a handler")
    return context


def enter(context: Context | None) -> None:
    """Make a context the current one of this thread or task; None: the handler is over."""
    _current.set(context)
