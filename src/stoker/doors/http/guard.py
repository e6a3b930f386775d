"""The guard at each connection: against clients that begin a request and do not go on with it."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from stoker.doors.http.envelope import Envelope
from stoker.doors.http.settings import Settings

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def guarded(settings: Settings) -> type[asyncio.Protocol]:
    """uvicorn's own protocol, with time limits, and with a size for each request's head."""
    return type("Guarded", (_Guarded,), {"limits": settings})


class _Guarded(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Lets go of a connection whose next request takes too long, or has too large a head."""

    limits: Settings
    _timer: asyncio.TimerHandle | None = None
    _head = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(Envelope(transport, self.loop))
        self._expect(self.limits.head_seconds)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._head += len(data)
            if self._head > self.limits.largest_head:
                self.transport.close()
            elif self._timer is None:
                self._expect(self.limits.head_seconds)
            return
        self._head = 0
        if not cycle.more_body:
            self._rest()
        elif cycle is not before:
            self._expect(self.limits.body_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def _expect(self, seconds: float) -> None:
        self._rest()
        self._timer = self.loop.call_later(seconds, self._let_go)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _let_go(self) -> None:
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(_TOO_SLOW)
        self.transport.close()
