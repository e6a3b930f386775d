"""The guard at each connection: against clients that begin a request and do not go on with it, or
do not take the answer.

It also sees who may go the short way."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, NamedTuple

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from stoker.doors.http.answers import Answer
from stoker.doors.http.envelope import Envelope
from stoker.doors.http.heads import Head, Heads
from stoker.doors.http.settings import Settings
from stoker.doors.http.short import ShortWays, written

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def guarded(settings: Settings, short_ways: ShortWays) -> type[asyncio.Protocol]:
    """uvicorn's own protocol, with time limits, and with a size for each request's head."""
    own = {"limits": settings, "short_ways": short_ways, "heads": Heads()}
    return type("Guarded", (_Guarded,), own)


class _Held(NamedTuple):
    """A request that goes the short way as soon as it is there."""

    cycle: Any
    head: Head


class _Exchange:
    """A request and its answer, for the short way all of what uvicorn's cycle is to the others."""

    message_event = asyncio.Event()  # nobody waits for it

    def __init__(self, protocol: _Guarded, head: Head) -> None:
        self.default_headers = protocol.server_state.default_headers
        self.on_response = protocol.on_response_complete
        self.keep_alive = head.keep_alive
        self.more_body = self.disconnected = False
        self.response_started = self.response_complete = False


class _Guarded(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Lets go of a connection whose next request takes too long, or has too large a head."""

    limits: Settings
    short_ways: ShortWays
    heads: Heads
    cycle: Any
    """Of the request that came last; None: there was none."""
    _held: _Held | None = None
    _between = True
    """Is the parser in no request?"""
    _piece: bytes | None = None
    """What the parser reads just now, if it was in no request before."""
    _timer: asyncio.TimerHandle | None = None
    _head = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(Envelope(transport, self.loop, self.limits.send_seconds))
        self._expect(self.limits.head_seconds)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        if self._between and (before is None or before.response_complete) and self._knows(data):
            return
        self._piece = data if self._between else None
        super().data_received(data)
        self._piece = None
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

    def pause_writing(self) -> None:
        super().pause_writing()
        self.transport.watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        self.transport.rest()
        super().connection_lost(exc)

    # -- the short way ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._between = False
        super().on_message_begin()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        way = self.short_ways.of(cycle.scope) if app is self.app else None
        headers = dict(cycle.scope["headers"]) if way is not None else {}
        if way is None or not way.fits(headers):
            super()._start_asgi_task(cycle, app)
            return
        self._held = _Held(cycle, Head(way, headers, cycle.keep_alive))
        if not cycle.more_body:
            self._go_on()

    def on_message_complete(self) -> None:
        self._between = True
        super().on_message_complete()
        if self._held is not None and self._held.cycle is self.cycle:
            self._go_on()

    def _go_on(self) -> None:
        assert self._held is not None
        (cycle, head), self._held = self._held, None
        body = bytes(cycle.body)
        if self._piece is not None:
            self.heads.learn(self._piece, body, head)
        if not head.way.serve(head.headers, body, partial(self._answer, cycle)):
            super()._start_asgi_task(cycle, self.app)

    def _knows(self, data: bytes) -> bool:
        """Is it a request that can be served without the parser?"""
        found = self.heads.find(data)
        if found is None or len(self.connections) >= self.limit_concurrency:
            return False
        head, body = found
        exchange = _Exchange(self, head)
        if not head.way.serve(head.headers, body, partial(self._answer, exchange)):
            return False
        self.cycle = exchange
        self._rest()
        self._head = 0
        self._unset_keepalive_if_required()
        return True

    def _answer(self, cycle: Any, answer: Answer) -> None:
        if cycle.disconnected:
            return
        last = not cycle.keep_alive
        self.transport.send(written(answer, cycle.default_headers, last=last))
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
