"""Between jobs and their rows: the one place that knows both forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from stoker.kernel.job import FORMATS, STATES, Job
from stoker.kernel.policy import Policy
from stoker.kernel.queue import Order, QueueSettings

INLINE_BYTES = 2048
"""Longer payloads live in `body`, so that moving the job does not rewrite them."""

FREE_LANE = "!"

_FIELDS = Job.__struct_fields__
_LEAN = _FIELDS.index("weight")
_UNUSUAL = msgspec.structs.astuple(Job(""))[_LEAN:]

# Where a job's fact is kept under another name or in another form.
_SELECTED = {"rank": "bucket + second"}
COLUMNS = ", ".join(_SELECTED.get(field, field) for field in _FIELDS)

_PLACED = "queue, name, payload, format, id, state, bucket, second, due_at, policy, "
_PLACED += "created_at, scheduled_at"
_EXTRA = ", ".join((*_FIELDS[_LEAN:], "lane"))
_PLACED_COUNT = _PLACED.count(",") + 1

INSERT_LEAN = f"INSERT INTO job ({_PLACED}) VALUES ({', '.join('?' * _PLACED_COUNT)})"  # noqa: S608
INSERT_WHOLE = (
    f"INSERT INTO job ({_PLACED}, {_EXTRA}) "  # noqa: S608
    f"VALUES ({', '.join('?' * (_PLACED_COUNT + _EXTRA.count(',') + 1))})"
)

Row = tuple[Any, ...]


def lane_of(key: str | None, weight: int) -> str | None:
    """Keyed jobs queue up by key, jobs of weight 0 apart from those that wait for room."""
    if weight == 0:
        return FREE_LANE
    return None if key is None else "=" + key


def order_columns(rank: int, settings: QueueSettings) -> tuple[int, int]:
    """(bucket, second): where the rank stands in the queue's order."""
    return (0, rank) if settings.order is Order.TIME_RANK else (rank, 0)


def insert_row(
    job: Job, job_id: int, queue: int, policy: int | str | None, settings: QueueSettings
) -> Row:
    """The row of a new job: short if it has nothing unusual, else whole."""
    facts = msgspec.structs.astuple(job)
    bucket, second = order_columns(job.rank, settings)
    payload = job.payload if len(job.payload) <= INLINE_BYTES else None
    lean: Row = (queue, facts[1], payload, facts[3], job_id, facts[5])
    lean += (bucket, second, facts[7], policy, facts[9], facts[10])
    unusual = facts[_LEAN:]
    if unusual == _UNUSUAL:
        return lean
    return (*lean, *unusual, lane_of(job.key, job.weight))


def is_lean(row: Row) -> bool:
    """Does the row hold only the facts every job has?"""
    return len(row) == _PLACED_COUNT


def job_of(
    row: Row,
    queue_name: Callable[[int], str],
    policy: Callable[[int | str | None], Policy],
    body: Callable[[int], bytes],
) -> Job:
    """The job of a row read as COLUMNS."""
    facts = list(row)
    facts[0] = queue_name(row[0])
    if row[2] is None:
        facts[2] = body(row[4])
    facts[3] = FORMATS[row[3]]
    facts[5] = STATES[row[5]]
    facts[8] = policy(row[8])
    facts[_CANCEL] = row[_CANCEL] == 1
    facts[_UNDECIDED] = row[_UNDECIDED] == 1
    return Job(*facts)


_CANCEL = _FIELDS.index("cancel_requested")
_UNDECIDED = _FIELDS.index("undecided")
