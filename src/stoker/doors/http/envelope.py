"""A transport that sends what is written in one moment in one piece.

The head and the body of an answer are written one after the other. Sent as they come they would be
two packets, and two calls of the system that other threads may use to push in.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Envelope:
    """Stands before a transport; whatever is not about writing goes straight to it."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._written: list[bytes] = []
        self.is_closing = transport.is_closing  # asked for all the time

    def write(self, data: bytes) -> None:
        """Send it with all else that is written before the loop goes on."""
        if not self._written:
            self._loop.call_soon(self._send)
        self._written.append(data)

    def send(self, data: bytes) -> None:
        """Send it now: there will be no more in this moment."""
        self._written.append(data)
        self._send()

    def close(self) -> None:
        """Send what is written, and close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        written, self._written = self._written, []
        if written and not self.is_closing():
            self._transport.write(b"".join(written))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
