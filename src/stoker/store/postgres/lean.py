"""The short way: changes of the two shapes that are most common, many of them in one statement.

New jobs without names of their own, and the ends of jobs that ran (or old ones being forgotten).
Which changes are of these shapes can be told without asking the server.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import astuple

from stoker.kernel.change import Change, Copies
from stoker.kernel.job import ENDED, RUNNING, WHOLE_WEIGHT, Job
from stoker.kernel.policy import PLAIN
from stoker.store import OK, Receipt
from stoker.store.lone import OWN_FACTS, is_unborn
from stoker.store.postgres.arrays import (
    Array,
    Bigints,
    Blobs,
    Booleans,
    Smallints,
    Texts,
)
from stoker.store.postgres.line import BYTES, FLAG, SMALL, TEXT, WHOLE
from stoker.store.postgres.rows import terms_of
from stoker.store.postgres.texts import written

_END_FACTS = frozenset({"state", "token", "session", "until", "ended_at", "result", "error"})
_END_NEEDS = frozenset({"state", "token", "session", "until", "ended_at"})

_ALIKE_ROUTINE = "place_alike"
_FIELDS = Job.__struct_fields__
_BLANK = astuple(Job(""))
_ALIKE = [number for number, field in enumerate(_FIELDS) if field not in OWN_FACTS]

LONE_KINDS = (
    *(TEXT, TEXT, BYTES, SMALL, WHOLE, WHOLE, TEXT, WHOLE, FLAG, FLAG),
    *(WHOLE, WHOLE, WHOLE, TEXT, TEXT, WHOLE, WHOLE),
)
"""What the server calls the types of the parameters of `place_one`."""
_whole = struct.Struct(">q").pack
_form = struct.Struct(">h").pack


class Ending(NamedTuple):
    """How one job ends: with its last facts, or forgotten if it has no state."""

    job: Job
    state: int | None = None
    until: int | None = None
    ended_at: int | None = None
    result: bytes | None = None
    error: str | None = None


class Arrivals(NamedTuple):
    """New jobs: a routine with its parameters, and by queue when the first is due."""

    routine: str
    parameters: list[Any]
    soonest: dict[str, int]


def only_inserts(change: Change) -> bool:
    """Are new jobs all that a change consists of?"""
    others = (change.writes, change.touches, change.tallies, change.deletes, change.queues)
    return bool(change.inserts) and not any(others) and not change.notes


def endings_of(change: Change) -> list[Ending] | None:
    """The ends that a change consists of; None if there is anything else in it."""
    if change.inserts or change.touches or change.tallies or change.queues or change.notes:
        return None
    if any(job.state is not RUNNING and not job.ended for job in change.deletes):
        return None
    endings = [Ending(job) for job in change.deletes]
    approved = None
    for write in change.writes:
        job, news = write.job, write.set
        # Jobs that end alike share what is set, so it is looked at once.
        if job.state is not RUNNING or (news is not approved and not _are_last(news)):
            return None
        approved = news
        result, error = news.get("result", job.result), news.get("error", job.error)
        endings.append(Ending(job, news["state"], news["until"], news["ended_at"], result, error))
    return endings


def _are_last(facts: Mapping[str, Any]) -> bool:
    """Are these what is set when a job ends, and no more?"""
    return _END_NEEDS <= facts.keys() <= _END_FACTS and facts["state"] in ENDED


def settling(endings: Sequence[Ending]) -> list[tuple[str, list[Array | None]]]:
    """The routines to be called, `settle` or `forget` or both, and their parameters."""
    calls: list[tuple[str, list[Array | None]]] = []
    in_order = sorted(endings, key=_id)
    kept = [ending for ending in in_order if ending.state is not None]
    if kept:
        jobs, states, untils, ends, results, errors = zip(*kept, strict=True)
        last: list[Array | None] = [Smallints.of(states), Bigints.of(untils), Bigints.of(ends)]
        last += [_unless(None, Blobs, results), _unless(None, Texts, errors)]
        calls.append(("settle", [*_leases(jobs), *last]))
    forgotten = [ending.job for ending in in_order if ending.state is None]
    if forgotten:
        calls.append(("forget", [*_leases(forgotten)]))
    return calls


def _leases(jobs: Sequence[Job]) -> list[Array]:
    """By which the server knows whether jobs are still those on which something was decided."""
    return [
        Bigints.of([job.id for job in jobs]),
        Bigints.of([job.revision for job in jobs]),
        Bigints.of([job.token for job in jobs]),
    ]


def _id(ending: Ending) -> int:
    return ending.job.id


def arrivals_of(changes: Sequence[Change]) -> Arrivals | None:
    """What changes of nothing but new jobs bring; None if one of the jobs is of another shape."""
    if len(changes) == 1 and isinstance(changes[0].inserts, Copies):
        return _copies(changes[0].inserts)
    rows = [astuple(job) for change in changes for job in change.inserts]
    columns = list(zip(*rows, strict=True))
    if any(columns[number].count(_BLANK[number]) < len(rows) for number in _ALIKE):
        return None
    facts = dict(zip(_FIELDS, columns, strict=True))
    counts = Counter(facts["queue"])
    latest_first = sorted(zip(facts["due_at"], facts["queue"], strict=True), reverse=True)
    return Arrivals(
        "place",
        [Texts.of([*counts]), Bigints.of([*counts.values()]), *_columns(facts)],
        {queue: due_at for due_at, queue in latest_first},
    )


def _columns(facts: dict[str, tuple[Any, ...]]) -> list[Array | None]:
    policies = facts["policy"]
    plain = all(policy is PLAIN for policy in policies)
    terms = [] if plain else [terms_of(policy) for policy in policies]
    return [
        Texts.of(facts["queue"]),
        Texts.of(facts["name"]),
        Blobs.of(facts["payload"]),
        _unless(0, Smallints, facts["format"]),
        _unless(0, Bigints, facts["rank"]),
        Bigints.of(facts["due_at"]),
        None if plain else Texts.of([each.text for each in terms]),
        None if plain else Bigints.of([each.timeout for each in terms]),
        None if plain else Booleans.of([each.stays for each in terms]),
        None if plain else Booleans.of([each.repeats for each in terms]),
        Bigints.of(facts["created_at"]),
        Bigints.of(facts["scheduled_at"]),
        _unless(WHOLE_WEIGHT, Bigints, facts["weight"]),
        _unless(None, Texts, facts["key"]),
        _unless(None, Texts, facts["meta"]),
    ]


def _unless(default: Any, kind: type[Array], values: tuple[Any, ...]) -> Array | None:
    """The column, if not every job has what it has by default."""
    return None if values.count(default) == len(values) else kind.of(values)


def _copies(copies: Copies) -> Arrivals | None:
    job = copies.template
    if not copies or not is_unborn(job):
        return None
    text, timeout, stays, repeats = terms_of(job.policy)
    facts = [
        *(written(job.queue), written(job.name), Blobs.of(copies.payloads)),
        *(int(job.format), job.rank, job.due_at),
        *(_written(text), timeout, stays, repeats),
        *(job.created_at, job.scheduled_at, job.weight),
        *(_written(job.key), _written(job.meta)),
    ]
    return Arrivals(_ALIKE_ROUTINE, facts, {job.queue: job.due_at})


def lone_facts(job: Job, given: int | None, mark: int | None) -> list[bytes | None]:
    """The parameters of the routine `place_one`. With a mark the job may start at once."""
    text, timeout, stays, repeats = terms_of(job.policy)
    return [
        _encoded(job.queue),
        _encoded(job.name),
        job.payload,
        _form(job.format),
        _whole(job.rank),
        _whole(job.due_at),
        _encoded(text),
        None if timeout is None else _whole(timeout),
        b"\x01" if stays else b"\x00",
        b"\x01" if repeats else b"\x00",
        _whole(job.created_at),
        _whole(job.scheduled_at),
        _whole(job.weight),
        _encoded(job.key),
        _encoded(job.meta),
        None if given is None else _whole(given),
        None if mark is None else _whole(mark),
    ]


def _written(text: str | None) -> str | None:
    return None if text is None else written(text)


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else written(text).encode()


def placed(changes: Sequence[Change], arrivals: Arrivals, said: list[int]) -> list[Receipt]:
    """The receipts of changes that brought new jobs, of which the routine has said the ids."""
    ids = _from_to(said) if arrivals.routine == _ALIKE_ROUTINE else said
    receipts, given = [], 0
    for change in changes:
        count = len(change.inserts)
        receipts.append(Receipt(ids=tuple(ids[given : given + count])) if count else OK)
        given += count
    return receipts


def _from_to(bounds: list[int]) -> list[int]:
    """All ids of stretches of which the first and the last are said."""
    pairs = zip(bounds[::2], bounds[1::2], strict=True)
    return [job_id for first, last in pairs for job_id in range(first, last + 1)]
