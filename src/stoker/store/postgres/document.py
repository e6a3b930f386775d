"""Changes inside transactions of others: over their connections, whatever driver made them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stoker.errors import BadInput, LeaseLost, StokerError, StoreMoved
from stoker.kernel.change import Change
from stoker.kernel.job import Job
from stoker.kernel.policy import Policy
from stoker.store import Receipt
from stoker.store.postgres.bell import channel_of
from stoker.store.postgres.rows import terms_of
from stoker.store.postgres.texts import written
from stoker.store.rings import rings_of

STATEMENT = "SELECT stoker.commit_within({})"
"""With the driver's sign for a parameter, which is the document."""


def document_of(change: Change, schema: str) -> str:
    """A Change as the routine takes it."""
    about_jobs = change.writes or change.deletes or change.tallies
    if change.touches or change.queues or change.notes or (change.inserts and about_jobs):
        raise BadInput("in a transaction of your own jobs can be enqueued or ended, no more")
    writes = [_write(write.job, write.set) for write in change.writes]
    queues = {write.job.queue for write in change.writes}
    queues |= {job.queue for job in (*change.inserts, *change.deletes)}
    document = {
        "inserts": [_columns(msgspec.structs.asdict(job)) for job in change.inserts],
        "writes": [*writes, *(_write(job, None) for job in change.deletes)],
        "tallies": [{"parent_id": t.parent_id, "ended": int(t.ended)} for t in change.tallies],
        "queues": [written(queue) for queue in sorted(queues)],
        "rings": sorted(rings_of([change])),
        "channel": channel_of(schema),
    }
    return msgspec.json.encode(document).decode()


def _write(job: Job, facts: Mapping[str, Any] | None) -> dict[str, Any]:
    guard = {"id": job.id, "revision": job.revision, "token": job.token}
    return guard if facts is None else {**guard, "set": _columns(facts)}


def _columns(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as columns, in forms that the server reads from JSON."""
    columns: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, Policy):
            columns |= _terms(value)
        elif isinstance(value, bytes):
            columns[name] = "\\x" + value.hex()
        else:
            columns[name] = written(value) if isinstance(value, str) else value
    return columns


def _terms(policy: Policy) -> dict[str, Any]:
    terms = terms_of(policy)._asdict()
    return {"policy": terms.pop("text"), **terms}


class _Answer(msgspec.Struct):
    ids: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    twins: dict[int, int] = {}


def receipt_of(answer: str) -> Receipt:
    """The receipt that an answer of the routine stands for, but for the parents that were told."""
    read = msgspec.json.decode(answer, type=_Answer)
    return Receipt(ok=not read.twins, ids=read.ids, twins=read.twins)


def told(error: Exception, shown: str) -> StokerError | None:
    """What an error of the caller's driver means to us; None if it is the caller's own affair."""
    state, text = _sqlstate(error), str(error).strip().splitlines()[0]
    if state == "STK01":
        return StoreMoved(text)
    if state == "STK02":
        return LeaseLost(text)
    if state in ("42883", "3F000", "42P01"):
        return BadInput(
            f"this connection leads to no store; it has to be one to the database of {shown}"
        )
    return None


def _sqlstate(error: BaseException) -> str | None:
    """SQLAlchemy and Django wrap what their driver says, each in its way."""
    for said in (error, getattr(error, "orig", None), error.__cause__):
        state = getattr(said, "sqlstate", None) or getattr(said, "pgcode", None)
        if isinstance(state, str):
            return state
    return None
