"""Between jobs and what Redis keeps of them: the one place that knows both forms.

A *body* is what a job is about: flags (is there something that starting it must know?), the length
of the head in three bytes, the head, the payload as it is. A *life* is what has happened to it,
laid out as `lua/lives.lua` says; a job to which nothing has happened has none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from stoker.kernel.job import FORMATS, PARTITION_SHIFT, STATES, WAITS_FOR_CHILDREN, Job
from stoker.kernel.job import WHOLE_WEIGHT as WHOLE
from stoker.kernel.policy import PLAIN, OnLost, Policy

NUMBER = 6
_LOCAL = (1 << PARTITION_SHIFT) - 1

_NOBODY = 2**64 - 1
_NEVER = -(2**63)
_FIXED = struct.Struct(">IQQBBqIqIIII")
_SIGNS = struct.Struct(">qd")
_GUARD = struct.Struct(">IQ")
_MOMENT = struct.Struct(">q")
_RATIO = struct.Struct(">d")
_SORTABLE = struct.Struct(">Q")
_WEIGHTY, _UNUSUAL_LEASE = 1, 2
_CHILDREN = 2

_WAITS_FOR, _CRASHES, _CANCEL, _UNDECIDED, _RESULT, _ERROR, _REPLY = range(1, 8)
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder().decode
_POLICY = msgspec.json.Decoder(Policy)

Facts = tuple[Any, ...]


def raw(data: bytes) -> msgspec.Raw:
    """Bytes in a request: the server's MessagePack is an old one and knows them as text only."""
    size = len(data)
    if size < 32:
        return msgspec.Raw(bytes((0xA0 | size,)) + data)
    if size < 256:
        return msgspec.Raw(bytes((0xD9, size)) + data)
    if size < 65536:
        return msgspec.Raw(b"\xda" + size.to_bytes(2, "big") + data)
    return msgspec.Raw(b"\xdb" + size.to_bytes(4, "big") + data)


def raw_or_none(data: bytes | None) -> msgspec.Raw | None:
    """The same where there may be nothing."""
    return None if data is None else raw(data)


def number_of(job_id: int) -> bytes:
    """A job's number within its partition, as it sorts."""
    return (job_id & _LOCAL).to_bytes(NUMBER, "big")


def numbers_in(blob: bytes) -> list[bytes]:
    """Numbers that stand one behind the other."""
    return [blob[at : at + NUMBER] for at in range(0, len(blob), NUMBER)]


def sortable(number: int) -> bytes:
    """A whole number as eight bytes that sort as numbers do."""
    return _SORTABLE.pack(number + 2**63)


def unsorted(encoded: bytes) -> int:
    """The number that `sortable` wrote."""
    return int(_SORTABLE.unpack(encoded)[0]) - 2**63


def place(rank: int, due_at: int, job_id: int) -> bytes:
    """Where a job stands, as lines have it."""
    return sortable(rank) + sortable(due_at) + number_of(job_id)


def moment(at: int | None) -> bytes:
    """A moment as it stands in lives and notes."""
    return _MOMENT.pack(_NEVER if at is None else at)


def moment_in(written: bytes) -> int | None:
    """The moment that `moment` wrote."""
    at = int(_MOMENT.unpack(written)[0])
    return None if at == _NEVER else at


def ratio(value: float) -> bytes:
    """Progress as it stands in lives."""
    return _RATIO.pack(value)


def token(value: int | None) -> bytes:
    """A token or a session as it stands in lives."""
    return _SORTABLE.pack(_NOBODY if value is None else value)


def guard(job: Job) -> bytes:
    """What a life begins with as long as nobody has moved the job."""
    return _GUARD.pack(job.revision, _NOBODY if job.token is None else job.token)


# -- bodies --------------------------------------------------------------------------------


def head(job: Job) -> bytes:
    """Everything of a body that stands before the payload."""
    facts: list[Any] = [
        job.queue,
        job.name,
        int(job.format),
        job.rank,
        job.due_at,
        job.created_at,
        job.scheduled_at,
        job.weight,
        job.key,
        job.unique_key,
        job.ref,
        job.meta,
        job.parent_id,
    ]
    flags = _WEIGHTY if job.weight != WHOLE else 0
    if job.policy is not PLAIN and job.policy != PLAIN:
        stored, timeout, stays = _stored(job.policy)
        facts.append((stored, timeout, stays))
        if stays or timeout != PLAIN.timeout:
            flags |= _UNUSUAL_LEASE
    while facts[-1] is None:
        facts.pop()
    encoded = _ENCODE(facts)
    return (flags << 24 | len(encoded)).to_bytes(4, "big") + encoded


@lru_cache(maxsize=1000)
def _stored(policy: Policy) -> tuple[str, int | None, bool]:
    text = msgspec.json.encode(policy).decode()
    return text, policy.timeout, policy.on_lost is OnLost.STAY


@lru_cache(maxsize=1000)
def _policy(text: str) -> Policy:
    return _POLICY.decode(text)


def queue_in_head(queue: str) -> bytes:
    """How a queue's name stands in a head."""
    return _ENCODE(queue)


_FACTS = 14
_KEY = 6  # its place among those that `_facts_of` gives second
_ENDS_WITH_KEY = 0x99  # nine facts, as a list of so many begins
_NOT_USED = b"\xc1"  # by MessagePack, nor by the flags of a body
_MISSING = (None,) * _FACTS


def _facts_of(encoded: bytes) -> tuple[Facts, Facts]:
    """Queue, name and format, then all that a body knows behind them, with the policy in its
    place."""
    facts = _DECODE(encoded)
    how = PLAIN if len(facts) < _FACTS else _policy(facts.pop()[0])
    facts[5:5] = (how,)
    facts += _MISSING[len(facts) :]
    return (facts[0], facts[1], FORMATS[facts[2]]), tuple(facts[3:])


def _stem(encoded: bytes, key: str | None) -> bytes:
    """What stands before the key, if that comes last; else what nothing begins with."""
    if encoded[0] != _ENDS_WITH_KEY or key is None:
        return _NOT_USED
    return encoded[: -len(_ENCODE(key))]


# -- lives ---------------------------------------------------------------------------------


def fixed(job: Job) -> bytes:
    """A life up to what a sign of life can move."""
    return _FIXED.pack(
        job.revision,
        _NOBODY if job.token is None else job.token,
        _NOBODY if job.session is None else job.session,
        job.state,
        _CHILDREN if job.waits_for == WAITS_FOR_CHILDREN else 0,
        _NEVER if job.ended_at is None else job.ended_at,
        job.attempt,
        _NEVER if job.started_at is None else job.started_at,
        job.open_children,
        job.finished_children,
        job.failed_children,
        job.cancelled_children,
    )


def rest(job: Job) -> dict[int, Any]:
    """The rarer facts of a life."""
    facts = {
        _WAITS_FOR: job.waits_for,
        _CRASHES: job.crashes or None,
        _CANCEL: job.cancel_requested or None,
        _UNDECIDED: job.undecided or None,
        _RESULT: job.result,
        _ERROR: job.error,
        _REPLY: job.reply,
    }
    return {fact: value for fact, value in facts.items() if value is not None}


def packed(facts: dict[int, Any]) -> bytes:
    """Rarer facts as they stand in a life."""
    return _ENCODE(facts) if facts else b""


def with_result(facts: dict[int, Any], result: bytes | None) -> bytes:
    """The same facts with another result."""
    return packed(facts if result is None else {**facts, _RESULT: result})


def life(job: Job) -> bytes | None:
    """A whole life; None if nothing has happened to the job yet."""
    written = fixed(job) + moment(job.until) + ratio(job.progress) + packed(rest(job))
    return None if written == _BORN else written


def _lived(written: bytes) -> tuple[Any, Facts]:
    """State, then all that comes behind the parent in the order of a job's fields."""
    revision, held_by, session, state, _, ended, attempt, started, *family = _FIXED.unpack_from(
        written
    )
    till, progress = _SIGNS.unpack_from(written, _FIXED.size)
    more = _DECODE(written[_WHOLE:]) if len(written) > _WHOLE else {}
    return STATES[state], (
        *family,
        more.get(_WAITS_FOR),
        attempt,
        more.get(_CRASHES, 0),
        revision,
        None if held_by == _NOBODY else held_by,
        None if session == _NOBODY else session,
        None if till == _NEVER else till,
        None if started == _NEVER else started,
        None if ended == _NEVER else ended,
        more.get(_CANCEL, False),
        more.get(_UNDECIDED, False),
        progress,
        more.get(_RESULT),
        more.get(_ERROR),
        more.get(_REPLY),
    )


_WHOLE = _FIXED.size + _SIGNS.size
_NEWBORN = Job("")
_BORN = fixed(_NEWBORN) + moment(None) + ratio(0.0)
_NO_LIFE = _lived(_BORN)


# -- jobs ----------------------------------------------------------------------------------


class JobReader:
    """Makes jobs of what a partition keeps of them.

    Many that come together begin alike, if need be up to their key, or have lived alike: what was
    read last is remembered.
    """

    def __init__(self, partition: int) -> None:
        self.first = partition << PARTITION_SHIFT
        self._head = self._stem = _NOT_USED
        self._what: Facts = ()
        self._about: Facts = ()
        self._around_key: tuple[Facts, Facts] = ((), ())
        self._life, self._lived = b"", _NO_LIFE

    def id_of(self, number: bytes) -> int:
        """The id by which the world knows a job."""
        return self.first | int.from_bytes(number, "big")

    def job(self, number: bytes, body: bytes, written: bytes | None) -> Job:
        """One job."""
        if not body.startswith(self._head):
            self._read_head(body)
        queue, name, form = self._what
        state, lived = _NO_LIFE
        if written is not None:
            if written != self._life:
                self._life, self._lived = written, _lived(written)
            state, lived = self._lived
        job_id = self.first | int.from_bytes(number, "big")
        payload = body[len(self._head) :]
        return Job(queue, name, payload, form, job_id, state, *self._about, *lived)

    def _read_head(self, body: bytes) -> None:
        size = 4 + int.from_bytes(body[1:4], "big")
        if body.startswith(self._stem, 4):
            key = _DECODE(body[4 + len(self._stem) : size])
            before, behind = self._around_key
            self._about = (*before, key, *behind)
        else:
            self._what, self._about = _facts_of(body[4:size])
            self._stem = _stem(body[4:size], self._about[_KEY])
            self._around_key = self._about[:_KEY], self._about[_KEY + 1 :]
        self._head = body[:size]

    def jobs(self, shown: Sequence[Any]) -> Iterator[Job]:
        """Jobs that were told as number, body, life, one after the other."""
        told = iter(shown)
        return (self.job(number, next(told), next(told)) for number in told)

    def granted(
        self, numbers: bytes, first: bytes, bodies: Sequence[bytes], odd: Sequence[Any]
    ) -> list[Job]:
        """The jobs of a served claim: the life of the first, and of those that have another."""
        lives = dict(zip(odd[::2], odd[1::2], strict=True))
        return [
            self.job(number, body, lives.get(at, first))
            for at, (number, body) in enumerate(zip(numbers_in(numbers), bodies, strict=True))
        ]


_LIFE_AT = NUMBER + 4
_SESSION_AT = 12


def errand_in(said: bytes, reader: JobReader) -> tuple[int, Job | None]:
    """For whom a job was started, and the job unless it is too long for a message."""
    number, size = said[:NUMBER], int.from_bytes(said[NUMBER:_LIFE_AT])
    life, body = said[_LIFE_AT : _LIFE_AT + size], said[_LIFE_AT + size :]
    session = int.from_bytes(life[_SESSION_AT : _SESSION_AT + 8])
    return session, reader.job(number, body, life) if body else None
