"""What is sent back: an answer as a value, or a stream of events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec

JSON = "application/json"
PROBLEM = "application/problem+json"
EVENTS = "text/event-stream"
HTML = "text/html; charset=utf-8"

_UNCACHED = (b"cache-control", b"no-store")
_ENCODE = msgspec.json.encode


class Answer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Status, body and headers. Nothing of it may be kept by caches on the way."""

    status: int
    body: bytes = b""
    media: str = JSON
    headers: tuple[tuple[str, str], ...] = ()

    def lines(self) -> list[tuple[bytes, bytes]]:
        """Its headers."""
        lines = [(b"content-length", b"%d" % len(self.body)), _UNCACHED]
        if self.body:
            lines.append((b"content-type", self.media.encode()))
        for name, value in self.headers:
            lines.append((name.encode(), value.encode("latin-1", "replace")))
        return lines

    def start(self) -> dict[str, object]:
        """The message that begins it."""
        return {"type": "http.response.start", "status": self.status, "headers": self.lines()}

    def again(self) -> Answer:
        """The same answer to the same request."""
        replayed = (("idempotent-replayed", "true"),)
        return Answer(self.status, self.body, self.media, self.headers + replayed)


class Stream(NamedTuple):
    """An answer that goes on until it is ended or nobody listens."""

    chunks: AsyncIterator[bytes]


NOTHING = Answer(204)


def told(value: object, status: int = 200, **headers: str) -> Answer:
    """An answer in JSON."""
    said = tuple((name.replace("_", "-"), text) for name, text in headers.items())
    return Answer(status, _ENCODE(value), headers=said)
