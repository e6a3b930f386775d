"""Idempotency-Key: a write that is sent twice is done once, and answered the same.

The answer is kept as a note in the store, so any server can give it again. Before it serves a
request a server puts a note that says so: a second request meanwhile is told to come again. If the
server dies between the two, the request is served anew after a while; for new jobs this is
harmless, since the note also holds a mark, of which their `ref` is made. The mark is as old as the
note: a key that comes again when it has been forgotten is a new one, whatever jobs of it are left.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import msgspec

from stoker.desk import Desk
from stoker.desk.notebook import Notebook
from stoker.doors.http.answers import Answer
from stoker.doors.http.problems import AnswerNotKept, KeyInUse, KeyReused

_PENDING = 120 * 1_000_000
_KEPT = 24 * 3600 * 1_000_000
_LARGEST = 2**20
_ROUNDS = 5


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of a request: who it was, and what it was answered, if it has been."""

    fingerprint: bytes
    mark: str
    """A UUID, by which what is made for it is known again."""
    served_until: int = 0
    """Until when somebody can be taken to be at it; 0: nobody is."""
    done: bool = False
    answer: Answer | None = None
    """None for what is done: it was too large to be kept."""


_ENCODE = msgspec.msgpack.encode
_DECODER = msgspec.msgpack.Decoder(Kept)


def fingerprint_of(*parts: bytes) -> bytes:
    """By which a request, or a key of somebody, is known again."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


class Once:
    """Sees to it. `run` does something in a thread."""

    def __init__(self, desk: Desk, run: Callable[..., Awaitable[Any]]) -> None:
        self._notebook = Notebook(desk.clerk)
        self._now = desk.store.now
        self._run = run

    async def serve(
        self, key: bytes, fingerprint: bytes, serve: Callable[[str], Awaitable[Answer]]
    ) -> Answer:
        """Serve a request, which is told its mark, or give the answer that it got before. What
        fails may be tried again."""
        note = f"http-once:{key.hex()}"
        kept, revision = await self._run(self._begin, note, fingerprint)
        if kept.done:
            return _again(kept)
        try:
            answer = await serve(kept.mark)
        except BaseException:  # a client that went away may come again as well
            # The mark stays: who is told of an error cannot know that nothing was done.
            free = Kept(fingerprint, kept.mark)
            await asyncio.shield(self._run(self._keep, note, free, revision))
            raise
        small = len(answer.body) <= _LARGEST
        told = Kept(fingerprint, kept.mark, done=True, answer=answer if small else None)
        await self._run(self._keep, note, told, revision)
        return answer

    def _begin(self, note: str, fingerprint: bytes) -> tuple[Kept, int]:
        """What is kept of a request that is done; else it is noted that somebody is at it. And the
        note's revision: who is so late that another one has taken over keeps nothing."""
        mark, revision = str(uuid4()), 0
        for _ in range(_ROUNDS):
            now = self._now()
            mine = Kept(fingerprint, mark, served_until=now + _PENDING)
            if self._keep(note, mine, revision):
                return mine, revision + 1
            there = self._notebook.read(note)
            if there is None:
                mark, revision = str(uuid4()), 0
                continue
            kept = _DECODER.decode(there.value)
            if kept.done or now < kept.served_until:
                return _checked(kept, fingerprint), there.revision
            same = kept.fingerprint == fingerprint
            mark, revision = kept.mark if same else str(uuid4()), there.revision
        raise KeyInUse("a request with this Idempotency-Key is being served")

    def _keep(self, note: str, kept: Kept, expect: int) -> bool:
        return self._notebook.write(note, _ENCODE(kept), expect=expect, lasting=_KEPT)


def _checked(kept: Kept, fingerprint: bytes) -> Kept:
    if kept.fingerprint != fingerprint:
        raise KeyReused("another request was sent with this Idempotency-Key")
    if not kept.done:
        raise KeyInUse("a request with this Idempotency-Key is being served")
    return kept


def _again(kept: Kept) -> Answer:
    if kept.answer is None:
        raise AnswerNotKept(
            f"this request was served before, but its answer of more than {_LARGEST:,} bytes was "
            "not kept; it is not served a second time"
        )
    return kept.answer.again()
