"""A job as such an application sees it: a copy, in the words of its five states."""

from __future__ import annotations

import enum
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from stoker.kernel.job import REPLY_PREFIX, WHOLE_WEIGHT, Job, State
from stoker.kernel.window import windows_text

NONE = "NONE"
"""What stands where there is no error: nothing is null."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class HipqState(enum.StrEnum):
    """Where a job is in its life."""

    INITIAL = "initial"
    RUNNING = "running"
    """Its request is being sent, or was and its answer is to come."""
    ERROR = "error"
    """It failed, and its retry function is still to be asked."""
    RETRY = "retry"
    FINAL = "final"


class HipqJob(msgspec.Struct, frozen=True):
    """One job. It is a copy: whatever is done to it, the job itself stays as it is."""

    id: int
    job_type: str
    job_data: Any
    job_key: str
    state: HipqState
    timeout: float
    error: Any
    attempt: int
    scheduled_run_time: datetime
    priority: int
    throttle_factor: float
    time_windows: str
    update_time: datetime
    critical: bool
    response: Any
    """The last answer that came, None if none did."""


class Memo(msgspec.Struct, frozen=True):
    """What a job remembers of its present try, or of what came of the last one."""

    asked: int = 0
    """In which try its request was sent; 0: it is to be tried again."""
    since: int = 0
    """Since when it is in its state."""
    until: int = 0
    """When it is in error, unless its answer comes."""

    @property
    def text(self) -> str:
        """As it is written down with the job."""
        return msgspec.json.encode(self).decode()


def memo_of(job: Job) -> Memo:
    """What the job remembers; it may be nothing yet."""
    return Memo() if job.meta is None else msgspec.json.decode(job.meta, type=Memo)


def is_answered(job: Job, attempt: int) -> bool:
    """Whether the answer it has is for the request of this very try."""
    return job.reply is not None and memo_of(job).asked == attempt


def key_of(job: Job, prefix: str) -> str:
    """What its answer is known by: what was said, or its id."""
    return str(job.id) if job.unique_key is None else job.unique_key.removeprefix(prefix)


def view(job: Job, job_type: str, prefix: str) -> HipqJob:
    """The job in other words."""
    state = _state(job)
    # A try that goes on, or is to be decided about, is counted again when a worker has it.
    goes_on = state in (HipqState.RUNNING, HipqState.ERROR) and job.state is State.QUEUED
    attempt = job.attempt + goes_on
    return HipqJob(
        id=job.id,
        job_type=job_type,
        job_data=msgspec.json.decode(job.payload),
        job_key=key_of(job, prefix),
        state=state,
        timeout=(job.policy.timeout or 0) / 1e6,
        error=NONE if job.error is None or state is HipqState.RUNNING else job.error,
        attempt=attempt,
        scheduled_run_time=_moment(job.due_at),
        priority=job.rank,
        throttle_factor=job.weight / WHOLE_WEIGHT,
        time_windows="" if job.policy.windows is None else windows_text(job.policy.windows),
        update_time=_moment(_since(job, state, attempt)),
        critical=job.weight == 0,
        response=None if job.reply is None else msgspec.json.decode(job.reply),
    )


def _state(job: Job) -> HipqState:
    if job.ended:
        return HipqState.FINAL
    if job.undecided:
        return HipqState.ERROR
    waits = (job.waits_for or "").startswith(REPLY_PREFIX)
    if job.state is State.RUNNING or waits or is_answered(job, job.attempt + 1):
        return HipqState.RUNNING
    return HipqState.INITIAL if job.attempt == 0 and job.error is None else HipqState.RETRY


def _since(job: Job, state: HipqState, attempt: int) -> int:
    """When it came into its state."""
    began, memo = job.started_at or job.created_at, memo_of(job)
    if state is HipqState.FINAL:
        return job.ended_at or began
    asked = memo.asked == attempt
    if state is HipqState.ERROR:
        # What is still to be decided about is a try that ran out of time.
        waited = asked and job.reply is None
        return memo.until if waited else began + (job.policy.timeout or 0)
    if state is HipqState.RUNNING and asked:
        return memo.since
    return max(began, memo.since)


def _moment(at: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at)
