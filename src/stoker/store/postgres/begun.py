"""Reading what a claim has begun: rows of the type `begun`, completed by what the claimer knows."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stoker.kernel.job import FORMATS, RUNNING, Job
from stoker.kernel.policy import OnLost
from stoker.store import Claim
from stoker.store.postgres.rows import Row, policy_of
from stoker.store.postgres.texts import read

QUEUE, NAME, PAYLOAD, FORMAT, ID, RANK, DUE_AT = range(7)
OTHERS = -1


class _Others(msgspec.Struct, frozen=True, array_like=True):
    """Facts that few jobs have when they begin."""

    unique_key: str | None
    ref: str | None
    meta: str | None
    parent_id: int | None
    open_children: int
    finished_children: int
    failed_children: int
    cancelled_children: int
    crashes: int
    cancel_requested: bool
    undecided: bool
    result: str | None
    error: str | None
    reply: str | None

    def facts(self) -> Mapping[str, Any]:
        """As a job has them."""
        found = msgspec.structs.asdict(self)
        texts = {name: found[name] for name in _TEXTS if found[name] is not None}
        blobs = {name: found[name] for name in _BLOBS if found[name] is not None}
        return {
            **found,
            **{name: read(text) for name, text in texts.items()},
            **{name: b64decode(text) for name, text in blobs.items()},
        }


_TEXTS = ("unique_key", "ref", "meta", "error")
_BLOBS = ("result", "reply")
_OTHERS = msgspec.json.Decoder(_Others)
_IDS = msgspec.json.Decoder(list[int])


class Heading(NamedTuple):
    """How a claim fared. Which fields of a row say that is told in `claim.sql`."""

    said: str
    moment: int
    in_line: str | None
    """The order in which the jobs are the foremost of all."""
    in_order: Sequence[int] | None
    """Their ids in the order in which they were chosen, if that matters."""


def heading_of(row: Row) -> Heading:
    """What the first row says."""
    ids = row[OTHERS]
    return Heading(row[QUEUE], row[DUE_AT], row[NAME], None if ids is None else _IDS.decode(ids))


def jobs_of(rows: Sequence[Row], claim: Claim, moment: int) -> list[Job]:
    """The jobs that began at a moment, in the order of their rows."""
    token, session = claim.token, claim.session
    jobs = []
    # Each by its name and at once: half of the time goes into taking rows apart.
    for (
        queue,
        name,
        payload,
        form,
        job_id,
        rank,
        due_at,
        terms,
        created_at,
        scheduled_at,
        weight,
        key,
        attempt,
        revision,
        until,
        others,
    ) in rows:
        policy = policy_of(terms)
        job = Job(
            read(queue),
            read(name),
            payload,
            FORMATS[form],
            job_id,
            RUNNING,
            rank,
            due_at,
            policy,
            created_at,
            scheduled_at,
            weight,
            None if key is None else read(key),
            attempt=attempt,
            revision=revision,
            token=token,
            session=None if policy.on_lost is OnLost.STAY else session,
            until=until,
            started_at=moment,
        )
        if others is not None:
            job = msgspec.structs.replace(job, **_OTHERS.decode(others).facts())
        jobs.append(job)
    return jobs
