"""A transport that sends what is written in one moment in one piece.

The head and the body of an answer are written one after the other. Sent as they come they would be
two packets, and two calls of the system that other threads may use to push in.

It also sees whether the other side takes what it is sent. Who takes nothing for too long is let go
of: closing alone would wait for it, for ever and with all that is left to send in memory.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Envelope:
    """Stands before a transport; whatever is not about writing goes straight to it."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, patience: float
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._patience = patience
        self._written: list[bytes] = []
        self._given = 0
        self._timer: asyncio.TimerHandle | None = None
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
        self.watch()

    def watch(self) -> None:
        """See to it that what is left is taken, in the end."""
        left = self._transport.get_write_buffer_size()
        if left and self._timer is None:
            taken = self._given - left
            self._timer = self._loop.call_later(self._patience, self._look, taken)

    def rest(self) -> None:
        """Nobody is there any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, taken: int) -> None:
        self._timer = None
        left = self._transport.get_write_buffer_size()
        if left and self._given - left == taken:
            self._transport.abort()
        else:
            self.watch()

    def _send(self) -> None:
        written, self._written = self._written, []
        if written and not self.is_closing():
            whole = b"".join(written)
            self._given += len(whole)
            self._transport.write(whole)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
