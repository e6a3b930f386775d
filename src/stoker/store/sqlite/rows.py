"""Between jobs and their rows: the one place that knows both forms."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import msgspec

from stoker.kernel.job import WHOLE_WEIGHT, Job
from stoker.kernel.queue import Order, QueueSettings
from stoker.store.walk import limited_tasks

INLINE_BYTES = 2048
"""Longer payloads live in `body`, so that moving the job does not rewrite them."""

FREE_LANE = "!"

_FIELDS = Job.__struct_fields__
QUEUE, POLICY, ID = _FIELDS.index("queue"), _FIELDS.index("policy"), _FIELDS.index("id")
PAYLOAD, FORMAT = _FIELDS.index("payload"), _FIELDS.index("format")
STATE, RANK, DUE_AT = _FIELDS.index("state"), _FIELDS.index("rank"), _FIELDS.index("due_at")
NAME, KEY, WEIGHT = _FIELDS.index("name"), _FIELDS.index("key"), _FIELDS.index("weight")
ATTEMPT, REVISION, STARTED_AT = (_FIELDS.index(n) for n in ("attempt", "revision", "started_at"))
TOKEN, SESSION, UNTIL = (_FIELDS.index(name) for name in ("token", "session", "until"))
PROGRESS = _FIELDS.index("progress")
CANCEL_REQUESTED, UNDECIDED = _FIELDS.index("cancel_requested"), _FIELDS.index("undecided")

_UNUSUAL_FROM = KEY + 1
_NOTHING_UNUSUAL = msgspec.structs.astuple(Job(""))[_UNUSUAL_FROM:]

# Where a job's fact is kept under another name or in another form.
_SELECTED = {"rank": "bucket + second"}
COLUMNS = ", ".join(_SELECTED.get(field, field) for field in _FIELDS)

# Most queued jobs are bare: what is left out here is as by default, and need not be read.
BARE_COLUMNS = (
    "job.id, job.bucket + job.second, job.due_at, job.name, job.key, job.weight, job.queue, "
    "job.payload, job.format, job.policy, job.created_at, job.scheduled_at, job.bare"
)


class Candidate(NamedTuple):
    """A queued job that may be next, read as BARE_COLUMNS; if it was read as the head of a lane,
    with the head's number, its turn, and the one behind it, who may be nobody or not due."""

    id: int
    rank: int
    due_at: int
    name: str
    key: str | None
    weight: int
    queue: int
    payload: bytes | None
    format: int
    policy: int | str | None
    created_at: int
    scheduled_at: int
    bare: int
    head: int | None = None
    turn: int = 0
    next_id: int | None = None
    next_rank: int = 0
    next_due: int = 0


KEY_OF_CANDIDATE, HEAD_OF_CANDIDATE = map(Candidate._fields.index, ("key", "head"))

_PLAIN = "id, bare, queue, name, payload, format, state, due_at, policy, created_at, scheduled_at"
_PLAIN_VALUES = "(?, 1, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, 0)"
PLAIN_LENGTH = 10
"""Values of a row without weight, key and lane."""
_KEYED_VALUES = _PLAIN_VALUES.replace(")", ", ?, ?, ?)")
_WHOLE = ", ".join((*_FIELDS, "second", "lane")).replace("rank", "bucket")
INSERT_WHOLE = f"INSERT INTO job ({_WHOLE}) VALUES ({', '.join('?' * (len(_FIELDS) + 2))})"  # noqa: S608

Row = tuple[Any, ...]


def lane_of(name: str, key: str | None, weight: int, settings: QueueSettings) -> str | None:
    """In a limited queue jobs queue up by key, and by task if that has a limit; those of weight 0
    apart."""
    if not settings.limited:
        return None
    if weight == 0:
        return FREE_LANE
    own = "" if key is None else "=" + key
    if settings.limits_task(name):
        return f"~{len(name)}:{name}{own}"
    return own or None


def kind_of(lane: str) -> str:
    """Which lanes a lane is looked at together with."""
    if not lane.startswith("~"):
        return FREE_LANE if lane == FREE_LANE else ""
    length, _, rest = lane[1:].partition(":")
    return "~" + rest[: int(length)]


def key_of(lane: str) -> str | None:
    """The key of those who stand in a lane, the lane of weight 0 apart."""
    if lane.startswith("~"):
        length, _, rest = lane[1:].partition(":")
        lane = rest[int(length) :]
    return lane[1:] if lane.startswith("=") else None


def lanes_of(key: str | None, settings: QueueSettings) -> list[str]:
    """All lanes in which jobs of a key (or with none) may stand that count."""
    lanes = [] if key is None else ["=" + key]
    if settings.tasks or settings.task_rates:
        own = [lane_of(name, key, 1, settings) for name in limited_tasks(settings)]
        lanes += [lane for lane in own if lane is not None]
    return lanes


def order_columns(rank: int, settings: QueueSettings) -> tuple[int, int]:
    """(bucket, second): where the rank stands in the queue's order."""
    return (0, rank) if settings.order is Order.TIME_RANK else (rank, 0)


def is_plain(job: Job, payload_bytes: int) -> bool:
    """Whether a new job without key or weight has only the facts every job has, and a payload that
    fits into the row."""
    usual = job.key is None and job.weight == WHOLE_WEIGHT
    return usual and _are_bare(msgspec.structs.astuple(job), payload_bytes)


def _are_bare(facts: Row, payload_bytes: int) -> bool:
    unusual = facts[STATE] or facts[_UNUSUAL_FROM:] != _NOTHING_UNUSUAL
    return not unusual and payload_bytes <= INLINE_BYTES


def bare_row(
    job: Job, job_id: int, queue: int, policy: int | str | None, settings: QueueSettings
) -> Row | None:
    """The values for `insert_bare`, or None if a job is not bare. One that has no key, weight or
    lane has fewer."""
    facts = msgspec.structs.astuple(job)
    if not _are_bare(facts, len(facts[PAYLOAD])):
        return None
    _, name, payload, form, _, _, rank, due_at, _, created_at, scheduled_at, weight, key = facts[
        :_UNUSUAL_FROM
    ]
    row = (job_id, queue, name, payload, form, due_at, policy, created_at, scheduled_at, rank)
    lane = lane_of(name, key, weight, settings)
    if key is None and lane is None and weight == WHOLE_WEIGHT:
        return row
    return (*row, weight, key, lane)


@cache
def insert_bare(order: Order, length: int, count: int) -> str:
    """The statement that inserts so many bare jobs, by the length of their rows. A hundred at once
    cost half of one by one."""
    if length == PLAIN_LENGTH:
        return _insert_many(order, [_PLAIN_VALUES] * count)
    return _insert_many(order, [_KEYED_VALUES] * count, "weight, key, lane")


def copied_facts(job: Job, queue: int, policy: int | str | None) -> Row:
    """The values for `insert_copies` that all copies of a plain job have in common."""
    times = (job.due_at, policy, job.created_at, job.scheduled_at)
    return (queue, job.name, job.format, *times, job.rank)


@cache
def insert_copies(order: Order, count: int) -> str:
    """The statement that inserts so many copies: first what they have in common, then id and
    payload of each."""
    own = ((9 + 2 * copy, 10 + 2 * copy) for copy in range(count))
    return _insert_many(
        order,
        [f"(?{id_}, 1, ?1, ?2, ?{body}, ?3, 0, ?4, ?5, ?6, ?7, ?8, 0)" for id_, body in own],
    )


def _insert_many(order: Order, values: list[str], *more: str) -> str:
    ranked = "second, bucket" if order is Order.TIME_RANK else "bucket, second"
    columns = ", ".join((_PLAIN, ranked, *more))
    return f"INSERT INTO job ({columns}) VALUES {', '.join(values)}"  # noqa: S608


def whole_row(
    job: Job, job_id: int, queue: int, policy: int | str | None, settings: QueueSettings
) -> Row:
    """The row for INSERT_WHOLE."""
    facts = list(msgspec.structs.astuple(job))
    bucket, second = order_columns(job.rank, settings)
    facts[QUEUE], facts[ID], facts[POLICY] = queue, job_id, policy
    facts[RANK] = bucket
    if len(job.payload) > INLINE_BYTES:
        facts[PAYLOAD] = None
    return (*facts, second, lane_of(job.name, job.key, job.weight, settings))
