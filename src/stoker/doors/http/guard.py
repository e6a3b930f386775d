"""The guard at each connection: against clients that begin a request and do not go on with it.

It also sees who may go the short way."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, NamedTuple

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from stoker.doors.http.answers import Answer
from stoker.doors.http.envelope import Envelope
from stoker.doors.http.gate import Headers
from stoker.doors.http.settings import Settings
from stoker.doors.http.short import ShortWay, ShortWays, written

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def guarded(settings: Settings, short_ways: ShortWays) -> type[asyncio.Protocol]:
    """uvicorn's own protocol, with time limits, and with a size for each request's head."""
    return type("Guarded", (_Guarded,), {"limits": settings, "short_ways": short_ways})


class _Held(NamedTuple):
    """A request that goes the short way as soon as it is there."""

    cycle: Any
    way: ShortWay
    headers: Headers


class _Guarded(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Lets go of a connection whose next request takes too long, or has too large a head."""

    limits: Settings
    short_ways: ShortWays
    _held: _Held | None = None
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

    # -- the short way ---------------------------------------------------------------------

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        way = self.short_ways.of(cycle.scope) if app is self.app else None
        headers = dict(cycle.scope["headers"]) if way is not None else {}
        if way is None or not way.fits(headers):
            super()._start_asgi_task(cycle, app)
            return
        self._held = _Held(cycle, way, headers)
        if not cycle.more_body:
            self._go_on()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self._held is not None and self._held.cycle is self.cycle:
            self._go_on()

    def _go_on(self) -> None:
        assert self._held is not None
        (cycle, way, headers), self._held = self._held, None
        if not way.serve(headers, bytes(cycle.body), partial(self._answer, cycle)):
            super()._start_asgi_task(cycle, self.app)

    def _answer(self, cycle: Any, answer: Answer) -> None:
        if cycle.disconnected:
            return
        last = not cycle.keep_alive
        self.transport.write(written(answer, cycle.default_headers, last=last))
        cycle.response_started = cycle.response_complete = True
        if last:
            self.transport.close()
        cycle.on_response()

    # -- time limits -----------------------------------------------------------------------

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
