"""Idempotency-Key: a write that is sent twice is done once, and answered the same.

The answer is kept as a note in the store, so any server can give it again. Before it serves a
request a server puts a note that says so: a second request meanwhile is told to come again. If the
server dies between the two, that note runs out and the request is served anew; for new jobs this is
harmless, since a key gives them a `ref` of their own.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from stoker.desk import Desk
from stoker.desk.notebook import Notebook
from stoker.doors.http.answers import Answer
from stoker.doors.http.problems import KeyInUse, KeyReused

_PENDING = 120 * 1_000_000
_KEPT = 24 * 3600 * 1_000_000
_LARGEST = 2**20
_ROUNDS = 5


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of a request: who it was, and what it was answered, if it has been."""

    fingerprint: bytes
    answer: Answer | None = None


_ENCODE = msgspec.msgpack.encode
_DECODER = msgspec.msgpack.Decoder(Kept)


def fingerprint_of(*parts: bytes) -> bytes:
    """By which a request is known again."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


class Once:
    """Sees to it. `run` does something in a thread."""

    def __init__(self, desk: Desk, run: Callable[..., Awaitable[Any]]) -> None:
        self._notebook = Notebook(desk.clerk)
        self._run = run

    async def serve(
        self, key: str, fingerprint: bytes, serve: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """Serve a request, or give the answer that it got before. What fails may be tried again."""
        note = f"http-once:{key}"
        kept: Kept | None = await self._run(self._begin, note, fingerprint)
        if kept is not None:
            if kept.fingerprint != fingerprint:
                raise KeyReused("another request was sent with this Idempotency-Key")
            if kept.answer is None:
                raise KeyInUse("a request with this Idempotency-Key is being served")
            return kept.answer.again()
        try:
            answer = await serve()
        except BaseException:  # a client that went away may come again as well
            await asyncio.shield(self._run(self._notebook.write, note, None))
            raise
        if len(answer.body) <= _LARGEST:
            value = _ENCODE(Kept(fingerprint, answer))
            await self._run(self._notebook.write, note, value, lasting=_KEPT)
        return answer

    def _begin(self, note: str, fingerprint: bytes) -> Kept | None:
        """What is kept already; None: nothing, and it is noted that somebody is at it."""
        for _ in range(_ROUNDS):
            value = _ENCODE(Kept(fingerprint))
            if self._notebook.write(note, value, expect=0, lasting=_PENDING):
                return None
            there = self._notebook.read(note)
            if there is not None:
                return _DECODER.decode(there.value)
        raise KeyInUse("a request with this Idempotency-Key is being served")
