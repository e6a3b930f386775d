"""What may be done to a job by its id: the terms under which each command is carried out.

Terms look at the job as it is at that moment. They refuse with a status line, or say which facts
are to be set.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stoker.desk import Desk
from stoker.desk.byhand import Terms
from stoker.doors.bedrock import values, words
from stoker.doors.bedrock.creating import repeat_of, repeating
from stoker.doors.bedrock.refusals import (
    CANNOT_CANCEL,
    CANNOT_DELETE_PAUSED,
    CANNOT_DELETE_RUNNING,
    CANNOT_FAIL,
    HAS_CHILDREN,
    MALFORMED_DATA,
    MALFORMED_DELAY,
    MALFORMED_NEXT_RUN,
    MISSING_DATA,
    MOCK_MISMATCH,
    NEGATIVE_DELAY,
    NOT_RUNNING,
    PARENT_NOT_PAUSED,
    WRONG_TOKEN,
    Refusal,
)
from stoker.doors.bedrock.values import Data, Headers
from stoker.doors.bedrock.words import Fields
from stoker.kernel.job import Job
from stoker.kernel.repeat import next_due, parse_repeat

NOTHING_TO_DO = "200 OK"

_RUNNING = ("RUNNING", "RUNQUEUED")
_LONGEST_DATA = 2**20
_LONGEST_DELAY = 8


def data_in(headers: Headers) -> Data | None:
    """The data, if any were given."""
    text = headers.get("data", "")
    return values.data_object(text) if text else None


def _check_token(job: Job, headers: Headers) -> None:
    """A client that shows the token of its hand-out speaks for that one only."""
    if headers.get("token") not in (None, str(job.token)):
        raise Refusal(WRONG_TOKEN)


# -- FinishJob and RetryJob ----------------------------------------------------------------


def finish_terms(desk: Desk, headers: Headers) -> Terms:
    """It runs, and if it is a child its parent waits for it."""
    data = data_in(headers)

    def terms(job: Job) -> Fields:
        _check_run(desk, job, headers)
        comes_back = job.policy.repeat is not None or job.open_children
        return _given(job, data) | (words.meta_after_run(job) if comes_back else {})

    return terms


def retry_terms(desk: Desk, headers: Headers) -> Terms:
    """The same, with another name and priority if they are given."""
    data = data_in(headers)
    name = values.name(headers["name"]) if headers.get("name") else None
    priority = headers.get("jobpriority")
    rank = None if priority is None else words.rank_of(values.priority(priority))

    def terms(job: Job) -> Fields:
        _check_run(desk, job, headers)
        facts = _given(job, data) | words.meta_after_run(job)
        if name is not None and name != job.name:
            facts |= renamed(job, name)
        return facts if rank is None else facts | {"rank": rank}

    return terms


def _check_run(desk: Desk, job: Job, headers: Headers) -> None:
    if words.state_word(job) not in _RUNNING and not words.is_mocked(job):
        raise Refusal(NOT_RUNNING)
    _check_token(job, headers)
    if job.parent_id is not None:
        parent = desk.store.get([job.parent_id]).get(job.parent_id)
        if parent is not None and words.state_word(parent) != "PAUSED":
            raise Refusal(PARENT_NOT_PAUSED)


def _given(job: Job, data: Data | None) -> Fields:
    if data is None:
        return {}
    if words.says_mocked(data) != words.is_mocked(job):
        raise Refusal(MOCK_MISMATCH)
    return {"payload": words.written(data)}


def renamed(job: Job, name: str) -> Fields:
    """Another name is another place in line; the old name is free."""
    queue = words.queue_of(name, mocked=words.is_mocked(job))
    return {"queue": queue, "name": name, "unique_key": None}


def repeats(headers: Headers) -> bool:
    """Whether a job that repeats shall do so this time as well."""
    if values.flag(headers.get("ignorerepeat", "")):
        return False
    wish = (data_in(headers) or {}).get("delete")
    return wish is None or bytes(wish) not in (b"true", b'"true"')


def retry_time(headers: Headers, now: int) -> int:
    """When to run again: at `nextRun`, else after `delay` seconds."""
    if headers.get("nextrun"):
        return values.moment(headers["nextrun"], MALFORMED_NEXT_RUN)
    text = headers.get("delay", "")
    if len(text) > _LONGEST_DELAY:
        raise Refusal(MALFORMED_DELAY)
    delay = values.integer(text)
    if delay < 0:
        raise Refusal(NEGATIVE_DELAY)
    return (now // values.SECOND + delay) * values.SECOND


# -- UpdateJob -----------------------------------------------------------------------------


def update_terms(headers: Headers, now: Callable[[], int]) -> Terms:
    """Any job, in any state."""
    data = _new_data(headers)
    repeat = repeat_of(headers.get("repeat", ""))
    clear = values.integer(headers.get("shouldclearrepeat", "")) != 0
    priority = headers.get("jobpriority")
    rank = None if priority is None else words.rank_of(values.priority(priority))
    next_run = headers.get("nextrun", "")
    at = values.moment(next_run, MALFORMED_NEXT_RUN) if next_run else None

    def terms(job: Job) -> Fields:
        _check_token(job, headers)
        facts: Fields = {"payload": words.written(words.marked(data, mocked=words.is_mocked(job)))}
        if rank is not None:
            facts["rank"] = rank
        if repeat is not None:
            facts["policy"] = repeating(job, repeat)
        if clear:
            facts["policy"] = msgspec.structs.replace(job.policy, repeat=None)
        moved = at if at is not None or repeat is None else _moved(job, repeat, now())
        return facts if moved is None else facts | {"due_at": moved, "scheduled_at": moved}

    return terms


def _new_data(headers: Headers) -> Data:
    text = headers.get("data", "")
    if not text:
        raise Refusal(MISSING_DATA)
    if len(text.encode("utf-8", "replace")) > _LONGEST_DATA:
        raise Refusal(MALFORMED_DATA)
    return values.data_object(text)


def _moved(job: Job, repeat: str, now: int) -> int:
    """A new repeat counts from what is known of the job."""
    return next_due(
        parse_repeat(repeat), scheduled=job.due_at, started=job.started_at, finished=now
    )


# -- FailJob, CancelJob, DeleteJob, RequeueJobs --------------------------------------------


def fail_terms(headers: Headers) -> Terms:
    """It runs."""
    data = data_in(headers)

    def terms(job: Job) -> Fields:
        if words.state_word(job) not in _RUNNING:
            raise Refusal(CANNOT_FAIL)
        _check_token(job, headers)
        return {} if data is None else {"payload": words.written(data)}

    return terms


def cancel_terms(job: Job) -> Fields:
    """It has not started, and has no children."""
    word = words.state_word(job)
    if word == "CANCELLED":
        raise Refusal(NOTHING_TO_DO)
    if job.open_children or job.finished_children or job.cancelled_children or job.failed_children:
        raise Refusal(HAS_CHILDREN)
    if word not in ("QUEUED", "PAUSED"):
        raise Refusal(CANNOT_CANCEL)
    return {}


def delete_terms(job: Job) -> Fields:
    """It neither runs, unless its lease would end by itself, nor waits."""
    word = words.state_word(job)
    if word == "RUNNING":
        raise Refusal(CANNOT_DELETE_RUNNING)
    if word == "PAUSED":
        raise Refusal(CANNOT_DELETE_PAUSED)
    return {}


def requeue_terms(name: str) -> Terms:
    """Any job, with another name if one is given."""

    def terms(job: Job) -> Fields:
        back = words.meta_after_run(job) if words.state_word(job) in _RUNNING else {}
        return back | renamed(job, name) if name else back

    return terms
