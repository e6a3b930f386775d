"""Jobs as the objects that creators and workers exchange.

The creator's object is the job's payload and never changes. What its worker says of a job while it
has it is kept in a *memo* beside it, and at the end all of it together is the job's result.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.desk import Desk
from stoker.doors.stdio.wire import Payload, Unreadable, stamp
from stoker.kernel.job import Format, Job
from stoker.kernel.policy import Policy
from stoker.store import Filter

_REF = "stdio:"
_FOREIGN = "stoker:"
_POLICY = Policy(timeout=None, crash_limit=None)
_USUAL_PRIORITY = 5
_PRIORITIES = {str(number): number for number in range(10)}
_DISPATCHED_AT = "dispatched_at"


class Memo(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the worker that has a job said of it since it accepted."""

    token: int
    """The lease it is about: what an earlier worker said is no longer true."""
    accepted_at: int
    """By the worker's own clock."""
    words: Payload = {}


_MEMO = msgspec.json.Decoder(Memo)


# -- from objects --------------------------------------------------------------------------


def text(fields: Payload, name: str) -> str:
    """A field that has to be there, and to say something."""
    value = fields.get(name)
    if value is None:
        raise Unreadable(f"{name} is missing")
    if not isinstance(value, str) or not value:
        raise Unreadable(f"{name} must be a text that is not empty, not {value!r}")
    return value


def new_job(fields: Payload, written: bytes | None = None) -> Job:
    """The job an object asks for; `written` is the object as it was sent."""
    uuid, queue, rank = text(fields, "uuid"), text(fields, "queue_name"), _rank(fields)
    if written is None or _DISPATCHED_AT in fields:
        fields = {name: value for name, value in fields.items() if name != _DISPATCHED_AT}
        written = msgspec.json.encode(fields)
    return Job(queue, payload=written, rank=rank, ref=_REF + uuid, policy=_POLICY)


def _rank(fields: Payload) -> int:
    value = fields.get("priority")
    if value is None:
        return _USUAL_PRIORITY
    known = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if known not in _PRIORITIES:
        raise Unreadable(f"priority must be a number from 0 to 9, not {value!r}")
    return _PRIORITIES[known]


def find(desk: Desk, uuid: str) -> Job | None:
    """The job that goes by this uuid."""
    number = uuid.removeprefix(_FOREIGN)
    if number != uuid and number.isascii() and number.isdigit() and len(number) < 19:
        return desk.store.get([int(number)]).get(int(number))
    return next(iter(desk.store.find(Filter(ref=_REF + uuid, limit=1))), None)


# -- to objects ----------------------------------------------------------------------------


def uuid_of(job: Job) -> str:
    """By what name creators and workers know the job."""
    if _is_ours(job):
        assert job.ref is not None
        return job.ref.removeprefix(_REF)
    return f"{_FOREIGN}{job.id}"


def assignment(job: Job) -> bytes:
    """The job's object, with the time at which it was given out."""
    written = job.payload
    if not (_is_ours(job) and written[:1] == b"{" and written[1:-1].strip()):
        written = msgspec.json.encode(_object_of(job))
    at = stamp(job.started_at or 0).encode()
    return b'%b,"%b":"%b"}' % (written[:-1], _DISPATCHED_AT.encode(), at)


def _object_of(job: Job) -> Payload:
    """The object of a job, also of one that came in by another door or was changed there."""
    fields = _decoded(job)
    if _is_ours(job) and isinstance(fields, dict):
        return fields
    known = {"uuid": uuid_of(job), "queue_name": job.queue, "priority": job.rank}
    return {**(fields if isinstance(fields, dict) else {"payload": fields}), **known}


def _decoded(job: Job) -> Any:
    try:
        if job.format is Format.JSON:
            return msgspec.json.decode(job.payload)
    except msgspec.MsgspecError:
        pass  # whoever wrote it did not mean what is said of its format
    return job.payload.decode("utf-8", "replace")


def _is_ours(job: Job) -> bool:
    return job.ref is not None and job.ref.startswith(_REF)


# -- what workers say ----------------------------------------------------------------------


def memo_of(job: Job) -> Memo | None:
    """What was said of a job by the worker that has it now; None: it has not accepted."""
    try:
        memo = _MEMO.decode(job.meta or "")
    except msgspec.MsgspecError:
        return None
    return memo if memo.token == job.token else None


def is_accepted(job: Job) -> bool:
    """Whether the worker that has the job has said so.

    Of a job that came in by another door nothing is remembered: it counts as accepted.
    """
    return not _is_ours(job) or memo_of(job) is not None


def remembered(job: Job, said: Payload, at: int) -> str | None:
    """The memo after a worker spoke of its job; None: there is nothing new to remember."""
    memo = memo_of(job)
    if not _is_ours(job) or job.token is None:
        return None
    news = _news(job, said)
    if memo is None:
        memo = Memo(job.token, at, news)
    elif news.items() <= memo.words.items():
        return None
    else:
        memo = Memo(memo.token, memo.accepted_at, {**memo.words, **news})
    return msgspec.json.encode(memo).decode()


def _news(job: Job, said: Payload) -> Payload:
    """What is not in the creator's object; a progress that is just a number has its own place."""
    known = _object_of(job)
    return {
        name: value
        for name, value in said.items()
        if name != _DISPATCHED_AT
        and not (name in known and known[name] == value)
        and not (name == "progress" and isinstance(value, int | float))
    }


def outcome(job: Job, said: Payload, *, worker: str, at: int) -> bytes:
    """All that is known of a finished job, as one object."""
    memo = memo_of(job)
    times = {_DISPATCHED_AT: stamp(job.started_at or 0), "finished_at": stamp(at)}
    earlier = {} if memo is None else memo.words
    return msgspec.json.encode(
        {**_object_of(job), **times, **earlier, **said, "worker_uuid": worker}
    )
