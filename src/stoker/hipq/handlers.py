"""The request, response and retry functions of a type, as one task.

The task runs once to send the request, and once more when the answer is there. In between its job
waits, and holds no worker.
"""

from __future__ import annotations

import asyncio
import enum
import inspect
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar
from typing import Final as Constant

import msgspec

from stoker.desk import Desk
from stoker.errors import BadInput, Duplicate
from stoker.hipq.job import HipqJob, HipqState, Memo, is_answered, key_of, memo_of, view
from stoker.kernel.duration import micros
from stoker.kernel.in_json import json_of
from stoker.kernel.job import LIVE, Job
from stoker.kernel.retry import Again, ByError, Failure, RetryPolicy, Verdict, consult, decide
from stoker.kernel.retry_forms import chosen_retry
from stoker.kernel.rules import lease_end
from stoker.store import Filter
from stoker.worker.context import AwaitsReply, Context

T = TypeVar("T")

Request = Callable[[HipqJob], Any]
Response = Callable[[HipqJob, Any], Any]
Retry = Callable[[HipqJob], Any]


class Waits(NamedTuple):
    """Returned by a request function: the answer is to come, under a key that the service gave
    out, or in less time than the job has (in seconds)."""

    key: str | None = None
    timeout: float | None = None


class Final(NamedTuple):
    """Returned by a request function that needs no answer: the job is done."""

    result: Any = None


class NotYet(enum.Enum):
    """Returned by a response function: this was not all, the job goes on waiting."""

    NOT_YET = "not yet"


NOT_YET: Constant = NotYet.NOT_YET


class TryAgain(NamedTuple):
    """Returned by a retry function: when (now, if it does not say), and with what."""

    at: datetime | None = None
    job_data: Any = msgspec.UNSET
    priority: int | None = None


class Handlers:
    """What is done with the jobs of one type."""

    def __init__(
        self,
        desk: Callable[[], Desk],
        job_type: str,
        prefix: str,
        *,
        request: Request,
        response: Response | None,
        retry: Retry | RetryPolicy | str | None,
    ) -> None:
        self._desk = desk
        self._job_type = job_type
        self._prefix = prefix
        self._request = request
        self._response = response or _as_it_came
        self._retry = chosen_retry(retry)
        if isinstance(self._retry, ByError):
            # It is asked when a worker comes by, who is told what was wrong, but not its kind.
            raise BadInput(
                f"the retry of {job_type!r} cannot go by the kind of the error; give a function "
                "that looks at job.error, or a policy for all errors"
            )
        for what, function in (("request", self._request), ("response", self._response)):
            if not callable(function):
                raise BadInput(f"the {what} of {job_type!r} must be a function, not {function!r}")

    def task(self) -> Callable[..., Any]:
        """The function to be run: async, if one of them is."""
        functions = (self._request, self._response)
        if not any(inspect.iscoroutinefunction(function) for function in functions):
            return self._run

        async def run(payload: bytes, context: Context) -> Any:  # noqa: ARG001
            function, args = self._step(context)
            if inspect.iscoroutinefunction(function):
                return self._settle(context, await function(*args))
            return self._settle(context, await asyncio.to_thread(function, *args))

        return run

    def _run(self, payload: bytes, context: Context) -> Any:  # noqa: ARG002
        function, args = self._step(context)
        return self._settle(context, function(*args))

    def _step(self, context: Context) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """What is to be done now: send the request, or take the answer."""
        job = self._view(context.job)
        if is_answered(context.job, context.attempt):
            return self._response, (job, job.response)
        if context.job.unique_key is None:
            self._check_own_key(job)
        context.expect_reply(self._prefix + job.job_key)
        return self._request, (job,)

    def _settle(self, context: Context, said: Any) -> Any:
        """What follows from what a function returned; a job that waits leaves here."""
        if is_answered(context.job, context.attempt):
            if said is NOT_YET:
                self._wait(context, Waits())
            return said
        if isinstance(said, Final):
            return said.result
        if said is not None and not isinstance(said, Waits):
            raise BadInput(
                f"the request function of {self._job_type!r} returned {said!r}; it must return "
                "Waits(...), None if the answer is to come, or Final(result) if there is none"
            )
        self._wait(context, said or Waits())
        return None

    def _wait(self, context: Context, waits: Waits) -> None:
        if waits.key is not None and waits.key != key_of(context.job, self._prefix):
            context.job = self._desk().report.rename(context.job, self._prefix + waits.key)
        timeout = None if waits.timeout is None else micros(waits.timeout)
        key = self._prefix + key_of(context.job, self._prefix)
        raise AwaitsReply(key, timeout, self._memo(context, timeout).text)

    def _memo(self, context: Context, timeout: int | None) -> Memo:
        job, now = context.job, self._desk().store.now()
        began = job.started_at or now
        until = lease_end(job.policy, now=now, started=began, visibility=timeout)
        # After a part of the answer it is as long in its state as before.
        part = is_answered(job, context.attempt)
        since = memo_of(job).since if part else began
        return Memo(context.attempt, since, until or 0)

    def _check_own_key(self, job: HipqJob) -> None:
        """Nobody has said a key for it; somebody may have said its id for another one."""
        wanted = Filter(states=tuple(LIVE), unique_key=self._prefix + job.job_key, limit=1)
        for other in self._desk().store.find(wanted):
            raise Duplicate(
                f"job {other.id} has the key {job.job_key!r}, which is this job's id; give one of "
                "them a job_key of its own",
                existing_id=other.id,
            )

    def retry(self, job: Job, failure: Failure) -> Verdict:
        """What the retry function or policy says; without one a job that failed is final."""
        now, said = self._desk().store.now(), self._retry
        if isinstance(said, RetryPolicy):
            dice = self._desk().clerk.dice()
            verdict = decide(said, failures=job.failures, failure=failure, now=now, dice=dice)
        else:
            verdict = consult(partial(self._asked, said), job, failure, now)
        if isinstance(verdict, Again):
            return msgspec.structs.replace(verdict, meta=Memo(since=now).text)
        return verdict

    def _asked(self, retry: Retry, job: Job, failure: Failure) -> object:
        copy = msgspec.structs.replace(
            self._view(job), state=HipqState.ERROR, error=failure.message
        )
        said = retry(copy)
        return self._again(said) if isinstance(said, TryAgain) else said

    def _again(self, said: TryAgain) -> Again:
        at = self._desk().store.now() if said.at is None else moment(said.at)
        data = said.job_data
        payload = None if data is msgspec.UNSET else json_of("the job_data", data)
        return Again(at, payload, said.priority)

    def _view(self, job: Job) -> HipqJob:
        return view(job, self._job_type, self._prefix)


def _as_it_came(job: HipqJob, answer: Any) -> Any:  # noqa: ARG001
    """What is done with an answer if nobody says so: it is the result."""
    return answer


def moment(at: datetime) -> int:
    """A moment that is said with its zone, in microseconds."""
    if at.tzinfo is None:
        raise BadInput("a time needs a zone, as in datetime.now(timezone.utc)")
    return round(at.timestamp() * 1e6)
