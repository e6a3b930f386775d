"""Heads of requests that were heard before.

A client that sends one job after the other says the same each time before its body, but for the
length perhaps. Once the parser has read that, a request that begins with just these bytes and comes
in one piece means the same, and need not be parsed again.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.doors.http.gate import Headers
from stoker.doors.http.short import ShortWay

_END = b"\r\n\r\n"
_MOST = 1000


class Head(NamedTuple):
    """What the parser made of a head, for requests that go the short way."""

    way: ShortWay
    headers: Headers
    keep_alive: bool


class Heads:
    """Those of all connections; when there are too many, memory begins anew."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Head, int]] = {}

    def learn(self, data: bytes, body: bytes, head: Head) -> None:
        """The parser found a request in what had come. If that was one request and no more, such
        heads are known from now on."""
        said = data.removesuffix(body)
        if data.endswith(body) and said.find(_END) == len(said) - len(_END):
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[said] = (head, len(body))

    def find(self, data: bytes) -> tuple[Head, bytes] | None:
        """The head and the body, if what has come is a request with a head that is known."""
        at = data.find(_END) + len(_END)
        head, length = self._known.get(data[:at], (None, 0))
        return None if head is None or len(data) - at != length else (head, data[at:])
