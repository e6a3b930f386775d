"""A job in Bedrock's words, and the other way round.

    name          the job's queue, behind a prefix; mocked jobs have a prefix of their own
    jobPriority   its rank, with the sign turned: here the greater goes first
    data          its payload
    retryAfter    a time limit for each try, after which it is given out again
    jobTimeout    the same in milliseconds; `onTimeout` says whether it is given out again
    repeat        its repeat, of which this door knows the patterns only
    RUNQUEUED     RUNNING with retryAfter;  PAUSED: WAITING

What no fact of a job can hold (the text of retryAfter, the run before this one) travels as `meta`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from stoker.doors.bedrock.refusals import NO_OBJECT, Refusal
from stoker.doors.bedrock.values import (
    DEFAULT_PRIORITY,
    MILLISECOND,
    SECOND,
    Data,
    fine_stamp,
    stamp,
)
from stoker.errors import BadInput
from stoker.kernel.job import Format, Job, State
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.retention import Retention
from stoker.kernel.retry import Fixed, Never
from stoker.kernel.sqlite_time import apply_modifier, modifier_valid

ORDINARY = "bedrock:"
MOCKED = "bedrock-mock:"
MARK = "mockRequest"
COUNT = "retryAfterCount"
UNCOUNTED = "manual"
"""Jobs whose name begins so are given out again without end."""

EMPTY = b"{}"
_TRUE = msgspec.Raw(b"true")
_NULL = msgspec.Raw(b"null")
_DAY = 86_400 * SECOND
_AT_ONCE = 1  # the shortest lease there is
_LONGEST_MONTH, _LONGEST_YEAR, _WEEK_BUT_ONE = 31 * _DAY, 366 * _DAY, 6 * _DAY

# A finished job goes at once; a finished child stays for its parent. A failed one stays for ever.
_ALONE = Retention(finished=0, failed=None)
_CHILD = Retention(failed=None)

_OBJECT = msgspec.json.Decoder(Data)
_ANY = msgspec.json.Decoder(msgspec.Raw)

_STATES = {State.RUNNING: "RUNNING", State.WAITING: "PAUSED"}


class Extras(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What this door has to remember of a job besides its facts."""

    retry_after: str = ""
    last_run: int | None = None
    """When the run before the present one began."""


_NO_EXTRAS = Extras()
_EXTRAS = msgspec.json.Decoder(Extras)


def extras(job: Job) -> Extras:
    """What was remembered; nothing of jobs that came in through another door."""
    if job.meta is None:
        return _NO_EXTRAS
    try:
        return _EXTRAS.decode(job.meta)
    except msgspec.MsgspecError:
        return _NO_EXTRAS


def meta_of(remembered: Extras) -> str | None:
    """How it travels with the job."""
    return None if remembered == _NO_EXTRAS else msgspec.json.encode(remembered).decode()


def meta_after_run(job: Job) -> dict[str, str | None]:
    """The run that is going on becomes the one before."""
    kept = msgspec.structs.replace(extras(job), last_run=job.started_at)
    return {"meta": meta_of(kept)}


# -- names ---------------------------------------------------------------------------------


def queue_of(name: str, *, mocked: bool) -> str:
    """Where jobs of this name, or of names that match this pattern, stand in line."""
    return (MOCKED if mocked else ORDINARY) + name


def is_ours(queue: str) -> bool:
    """Whether it is a queue of this door."""
    return queue.startswith((ORDINARY, MOCKED))


def is_mocked(job: Job) -> bool:
    """Whether the job is to be seen only by those who ask for mocked ones."""
    return job.queue.startswith(MOCKED)


def state_word(job: Job) -> str:
    """Bedrock's name for the state."""
    if job.state is State.RUNNING and extras(job).retry_after:
        return "RUNQUEUED"
    return _STATES.get(job.state, job.state.name)


# -- treatment -----------------------------------------------------------------------------


class Treatment(msgspec.Struct, frozen=True):
    """What a client says about how its job is to be treated."""

    repeat: str | None = None
    retry_after: str = ""
    timeout: int | None = None
    """Microseconds."""
    again: bool = True
    """Whether it is given out again after its timeout."""
    child: bool = False
    tries: int | None = None
    """How often it is given out at most; None: without end."""


@lru_cache(maxsize=1024)
def policy_of(treatment: Treatment) -> Policy:
    """The policy that does it."""
    tries = treatment.tries
    again = Fixed(0, None if tries is None else tries - 1)
    retention = _CHILD if treatment.child else _ALONE
    if treatment.retry_after:
        return Policy(
            timeout=_longest_lease(treatment.retry_after),
            crash_limit=tries,
            retry=again,
            retention=retention,
        )
    return Policy(
        timeout=treatment.timeout,
        on_lost=OnLost.STAY,
        crash_limit=None,
        retry=again if treatment.timeout is not None and treatment.again else Never(),
        repeat=treatment.repeat,
        retention=retention,
    )


@lru_cache(maxsize=1024)
def _longest_lease(modifier: str) -> int:
    """How long a lease by this modifier lasts at most."""
    if is_calendar(modifier):
        amount, _, unit = modifier.upper().partition(" ")
        if amount == "WEEKDAY":
            return _WEEK_BUT_ONE
        return max(_AT_ONCE, int(amount) * (_LONGEST_YEAR if "YEAR" in unit else _LONGEST_MONTH))
    return max(_AT_ONCE, apply_modifier(0, modifier))


@lru_cache(maxsize=1024)
def is_calendar(modifier: str) -> bool:
    """Whether the length of the lease depends on the day on which it begins."""
    upper = modifier.upper()
    if upper.startswith("START OF "):
        return False  # it is over before it begins
    return "MONTH" in upper or "YEAR" in upper or upper.startswith("WEEKDAY")


def retry_after_valid(text: str) -> bool:
    """Whether it is one modifier that leads to a time we can reckon with."""
    try:
        return modifier_valid(text) and _longest_lease(text) > 0
    except BadInput:
        return False


def exact_lease(job: Job) -> int | None:
    """How long a lease that has begun really lasts, where that depends on the day."""
    modifier = extras(job).retry_after
    if not modifier or not is_calendar(modifier) or job.started_at is None:
        return None
    return max(0, apply_modifier(job.started_at, modifier) - job.started_at)


# -- data ----------------------------------------------------------------------------------


def marked(data: Data, *, mocked: bool) -> Data:
    """The data of a mocked job say so; those of another do not."""
    rest = {name: value for name, value in data.items() if name != MARK}
    return {**rest, MARK: _TRUE} if mocked else rest


def says_mocked(data: Data) -> bool:
    """Whether the data are those of a mocked job."""
    return bytes(data.get(MARK, _NULL)) != b"null"


def written(data: Data) -> bytes:
    """As it is stored: without the count, which is ours to keep."""
    return msgspec.json.encode({name: value for name, value in data.items() if name != COUNT})


def merged(stored: bytes, patch: Data) -> bytes:
    """The stored object with a patch merged in: objects by key, null takes a key away."""
    try:
        return msgspec.json.encode(_merged(_object(stored), patch))
    except RecursionError:
        raise Refusal(NO_OBJECT, "it is nested too deeply to be merged") from None


def _merged(into: Data, patch: Data) -> Data:
    for name, value in patch.items():
        if bytes(value) == b"null":
            into.pop(name, None)
        elif bytes(value).startswith(b"{"):
            under = _object(bytes(into.get(name, _NULL)))
            into[name] = msgspec.Raw(msgspec.json.encode(_merged(under, _object(bytes(value)))))
        else:
            into[name] = value
    return into


def _object(text: bytes) -> Data:
    try:
        return _OBJECT.decode(text)
    except msgspec.MsgspecError:
        return {}


def data_of(job: Job, count: int = 0) -> msgspec.Raw:
    """The data as they are shown; `count` hand-outs have come to nothing."""
    if job.format is not Format.JSON:
        return msgspec.Raw(msgspec.json.encode(job.payload.decode("utf-8", "replace")))
    if count:
        return msgspec.Raw(
            msgspec.json.encode({**_object(job.payload), COUNT: msgspec.Raw(b"%d" % count)})
        )
    try:
        return _ANY.decode(job.payload)
    except msgspec.MsgspecError:
        return _NULL
    except RecursionError:
        return msgspec.Raw(job.payload)  # it was read once, with more room to go deep


# -- fields --------------------------------------------------------------------------------

Fields = dict[str, Any]


def handed_out(job: Job) -> Fields:
    """The fields of a job that was just given out: as it was before."""
    kept = extras(job)
    fields = _fields(job, kept, job.attempt - 1)
    fields["lastRun"] = _shown(kept.last_run if job.attempt <= 1 else _lost_run(job))
    fields["nextRun"] = _next_run(job)
    if job.until is not None:
        fields |= {"attempt": job.attempt, "token": str(job.token)}
    return fields


def _lost_run(job: Job) -> int | None:
    """When the run began that came to nothing: its time limit before the job was due again."""
    return None if job.policy.timeout is None else job.due_at - job.policy.timeout


def as_it_is(job: Job) -> Fields:
    """The fields of a job that is asked about."""
    kept = extras(job)
    fields = _fields(job, kept, job.attempt)
    fields["lastRun"] = _shown(job.started_at)
    leased = kept.retry_after and job.state is State.RUNNING and job.until is not None
    fields["nextRun"] = stamp(job.until) if leased and job.until else _next_run(job)
    fields["state"] = state_word(job)
    return fields


def _fields(job: Job, kept: Extras, count: int) -> Fields:
    counts = kept.retry_after and not job.name.startswith(UNCOUNTED)
    fields = {
        "created": stamp(job.created_at),
        "data": data_of(job, count if counts else 0),
        "jobID": job.id,
        "name": job.name,
        "priority": -job.rank,
        "repeat": job.policy.repeat or "",
        "retryAfter": kept.retry_after,
    }
    if job.policy.timeout is not None and not kept.retry_after:
        running = job.state is State.RUNNING and job.until is not None
        fields["timeout"] = job.policy.timeout // MILLISECOND
        fields["expires"] = fine_stamp(job.until) if running and job.until else ""
    return fields


def _next_run(job: Job) -> str:
    whole = job.due_at % SECOND < MILLISECOND and job.due_at != job.created_at
    return stamp(job.due_at) if whole else fine_stamp(job.due_at)


def _shown(at: int | None) -> str:
    return "" if at is None else stamp(at)


def encoded(fields: Mapping[str, Any]) -> bytes:
    """Fields as JSON, in the order of their names."""
    return msgspec.json.encode({name: fields[name] for name in sorted(fields, key=str.lower)})


def rank_of(priority: int | None) -> int:
    """A priority as a rank."""
    return -(DEFAULT_PRIORITY if priority is None else priority)
