"""Between jobs and their rows: the one place that knows both forms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from stoker.kernel.admission import of_key, of_task
from stoker.kernel.amount import units
from stoker.kernel.job import FORMATS, STATES, Job
from stoker.kernel.policy import PLAIN, OnLost, Policy
from stoker.kernel.queue import Order, QueueSettings
from stoker.kernel.rate import filling
from stoker.store.choosing import Laned
from stoker.store.postgres.arrays import (
    Array,
    Bigints,
    Blobs,
    Booleans,
    Doubles,
    Integers,
    Smallints,
    Texts,
)
from stoker.store.postgres.texts import read, written
from stoker.store.walk import limited_tasks

Row = tuple[Any, ...]

_FIELDS = Job.__struct_fields__
QUEUE, NAME, PAYLOAD, FORMAT, ID, STATE, RANK, DUE_AT, POLICY = range(9)
WEIGHT, META, REF = (_FIELDS.index(field) for field in ("weight", "meta", "ref"))
_OWN_TEXTS = ("key", "unique_key", "ref", "meta", "waits_for", "error")
_TEXTS = [_FIELDS.index(name) for name in _OWN_TEXTS]
_ENCODER = msgspec.json.Encoder()
_POLICY = msgspec.json.Decoder(Policy)
_SETTINGS = msgspec.json.Decoder(QueueSettings)

COLUMNS = ", ".join("bucket + second" if field == "rank" else field for field in _FIELDS)
"""What is selected to make a job of it."""

FACTS = COLUMNS.replace("payload", "''::bytea")
"""The same without the payload, which may be long and is hardly ever asked for."""

FREE_LANE = "!"


class Terms(NamedTuple):
    """A policy as a row has it: its text (None: the plain one), and what a claim has to know."""

    text: str | None
    timeout: int | None
    stays: bool
    repeats: bool


@lru_cache(maxsize=1000)
def terms_of(policy: Policy) -> Terms:
    """What a row says of a policy."""
    text = None if policy == PLAIN else _ENCODER.encode(policy).decode()
    stays = policy.on_lost is OnLost.STAY
    return Terms(text, policy.timeout, stays, policy.repeat is not None)


@lru_cache(maxsize=1000)
def policy_of(text: str | None) -> Policy:
    """The policy a row speaks of."""
    return PLAIN if text is None else _POLICY.decode(text)


@lru_cache(maxsize=1000)
def settings_of(text: str) -> QueueSettings:
    """The settings a queue's row speaks of."""
    return _SETTINGS.decode(text)


class _OwnTerms(NamedTuple):
    """What holds for a queue as a whole: units, and of a bucket the time that one job takes to be
    filled in, the time that the whole takes, and the period."""

    units: int | None = None
    step: int | None = None
    whole: int | None = None
    period: int | None = None


_NO_TERMS = _OwnTerms()


def settings_row(settings: QueueSettings) -> list[Any]:
    """What a queue's row says of its settings: their text, and what statements have to know."""
    own = _own_terms(settings)
    return [
        _ENCODER.encode(settings).decode(),
        settings.paused,
        settings.limited,
        settings.order is Order.TIME_RANK,
        Texts.of(limited_tasks(settings)),
        settings.fair,
        settings.ageing,
        None if settings.within is None else written(settings.within),
        counts_keys(settings),
        bool(settings.key_rate or settings.key_rates),
        own is not None or _goes_by_keys(settings),
        *(own or _NO_TERMS),
        None if settings.key_capacity is None else units(settings.key_capacity),
        settings.waits_for_room,
    ]


def counts_keys(settings: QueueSettings) -> bool:
    """Does it matter what a key holds?"""
    return bool(settings.key_capacity or settings.keys or settings.shares)


def _goes_by_keys(settings: QueueSettings) -> bool:
    """Does nothing decide who may start but the places of keys, the same for all, and turns?"""
    return _is_all_limits(settings, key_capacity=None, fair=False) and not settings.turns


def _own_terms(settings: QueueSettings) -> _OwnTerms | None:
    """What the queue may hold and how its bucket fills, if nothing else decides who may start."""
    rate = settings.rate
    if settings.shares or not _is_all_limits(settings, capacity=None, rate=None):
        return None
    if rate is not None and rate.burst is None:
        return None
    held = None if settings.capacity is None else units(settings.capacity)
    return _OwnTerms(held, *(() if rate is None else filling(rate)))


def _is_all_limits(settings: QueueSettings, **without: bool | None) -> bool:
    """Is nothing limited any more without these?"""
    return settings.limited and not msgspec.structs.replace(settings, **without).limited


def job_of(row: Row) -> Job:
    """The job that a row read as COLUMNS is."""
    facts = list(row)
    facts[QUEUE], facts[NAME] = read(row[QUEUE]), read(row[NAME])
    facts[FORMAT], facts[STATE] = FORMATS[row[FORMAT]], STATES[row[STATE]]
    facts[POLICY] = policy_of(row[POLICY])
    for place in _TEXTS:
        if row[place] is not None:
            facts[place] = read(row[place])
    return Job(*facts)


def lane_of(job: Laned, settings: QueueSettings) -> str | None:
    """The kind of lane in which a job stands; None: in none.

    In limited queues jobs queue up by key and, if their task has a limit, by task; those of weight
    0 stand apart from all who wait.
    """
    if not settings.limited:
        return None
    if job.weight == 0:
        return FREE_LANE
    if settings.limits_task(job.name):
        return of_task(job.name)
    return None if job.key is None else ""


def party_of(key: str | None) -> str:
    """Whose lanes those of a key are; jobs without one are a party as well."""
    return "" if key is None else of_key(key)


def bucket_of(rank: int, settings: QueueSettings) -> tuple[int, int]:
    """(bucket, second): where the rank stands in the queue's order."""
    return (0, rank) if settings.order is Order.TIME_RANK else (rank, 0)


_WRITTEN: dict[str, Any] = {
    "bucket": Bigints,
    "second": Bigints,
    "lane": Texts,
    "counted": Booleans,
    "policy": Texts,
    "timeout": Bigints,
    "stays": Booleans,
    "repeats": Booleans,
    "payload": Blobs,
    "queue": Texts,
    "name": Texts,
    "format": Smallints,
    "state": Smallints,
    "due_at": Bigints,
    "created_at": Bigints,
    "scheduled_at": Bigints,
    "weight": Bigints,
    "key": Texts,
    "unique_key": Texts,
    "ref": Texts,
    "meta": Texts,
    "parent_id": Bigints,
    "open_children": Integers,
    "finished_children": Integers,
    "failed_children": Integers,
    "cancelled_children": Integers,
    "waits_for": Texts,
    "attempt": Integers,
    "crashes": Integers,
    "revision": Bigints,
    "token": Bigints,
    "session": Bigints,
    "until": Bigints,
    "started_at": Bigints,
    "ended_at": Bigints,
    "cancel_requested": Booleans,
    "undecided": Booleans,
    "progress": Doubles,
    "result": Blobs,
    "error": Texts,
    "reply": Blobs,
}
_DERIVED = 9
_PLAIN_FACTS = tuple(_WRITTEN)[_DERIVED:]


def _statement_parts() -> tuple[str, str, str]:
    names = ", ".join(_WRITTEN)
    values = ", ".join(f"${number}" for number in range(1, len(_WRITTEN) + 1))
    settled = ", ".join(f"{name} = new.{name}" for name in _WRITTEN if name != "payload")
    settled += ", joined = false"  # whoever was changed stands by itself from then on
    return names, values, settled


_NAMES, _VALUES, _SETTLED = _statement_parts()
INSERT = (
    f"INSERT INTO stoker.job (id, {_NAMES}) SELECT nextval('stoker.job_id'), new.* "  # noqa: S608
    f"FROM unnest({_VALUES}) AS new ({_NAMES}) RETURNING id"
)
"""New jobs with all their facts; gives their ids in order."""
ADOPT = (
    f"INSERT INTO stoker.job ({_NAMES}, id) "  # noqa: S608
    f"SELECT new.* FROM unnest({_VALUES}, ${len(_WRITTEN) + 1}) AS new ({_NAMES}, id)"
)
"""Jobs as they are, with the ids they bring along."""
UPDATE = (
    f"UPDATE stoker.job SET {_SETTLED}, payload = coalesce(new.payload, job.payload) "  # noqa: S608
    f"FROM unnest({_VALUES}, ${len(_WRITTEN) + 1}) AS new ({_NAMES}, id) WHERE job.id = new.id"
)
"""All facts of jobs; a payload of NULL stays as it is."""


class Written(NamedTuple):
    """A job to be written, with the settings of its queue; without its payload if that stays."""

    job: Job
    settings: QueueSettings
    payload: bytes | None


def columns(jobs: Sequence[Written]) -> list[Array]:
    """The parameters of INSERT; those of UPDATE but for the ids."""
    rows = [_row(*each) for each in jobs]
    kinds = _WRITTEN.values()
    return [kind.of(column) for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)]


def _row(job: Job, settings: QueueSettings, payload: bytes | None) -> Row:
    derived = (
        *bucket_of(job.rank, settings),
        lane_of(job, settings),
        job.key is not None and counts_keys(settings),
        *terms_of(job.policy),
        payload,
    )
    return derived + tuple(getattr(job, fact) for fact in _PLAIN_FACTS)
