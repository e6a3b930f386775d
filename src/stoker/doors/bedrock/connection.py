"""One connection: requests one after another, each answered before the next is begun."""

from __future__ import annotations

import asyncio
import hmac
import socket
import time
from collections.abc import Sequence
from typing import Protocol, cast

from stoker.doors.bedrock.counter import failed
from stoker.doors.bedrock.protocol import Limits, Malformed, Parser, Reply, Request, rendered
from stoker.doors.bedrock.refusals import ABORTED, TOO_BUSY, TOO_SLOW
from stoker.doors.bedrock.waiting import Seeker
from stoker.kernel.job import Job

_TO_BE_READ = 1.0
"""Seconds in which a reset connection means that its last answer was never read."""
_LEAST_WEIGHT = 1000
_SEE_OFF = 0.1
_LINGER = 2.0


class House(Protocol):
    """What a connection needs of its server."""

    limits: Limits
    closing: bool

    def joined(self, connection: Connection) -> bool:
        """A connection has come; False: there are too many."""

    def left(self, connection: Connection) -> None:
        """A connection has gone."""

    def held(self, change: int) -> bool:
        """So many bytes more are kept for connections; False: that is too much."""

    def serve(self, exchange: Exchange) -> None:
        """Answer a request, now or later."""

    def facts(self, exchange: Exchange, reply: Reply, *, ends: bool) -> dict[str, str]:
        """What the headers of a reply tell about the server."""

    def leave(self, seeker: Seeker) -> None:
        """Somebody who asked for jobs is gone."""

    def handed(self, jobs: Sequence[Job]) -> None:
        """Jobs were handed over."""

    def give_back(self, jobs: Sequence[Job]) -> None:
        """Jobs could not be handed over."""


class Exchange:
    """One request and its answer."""

    def __init__(self, connection: Connection, request: Request) -> None:
        self.connection = connection
        self.request = request
        self.begun = time.perf_counter_ns()
        self.wish = request.headers.get("connection", "").lower()
        """What the client wants of its connection."""
        self.seeker: Seeker | None = None
        self.forgotten = False
        """Answered already: what comes of it is of no interest."""

    @property
    def weight(self) -> int:
        """What it takes to remember the request, roughly."""
        return _LEAST_WEIGHT + sum(map(len, self.request.headers.values()))

    def answer(self, reply: Reply, handed: Sequence[Job] = ()) -> bool:
        """Answer; False: there is nobody to take the jobs."""
        return self.connection.answer(self, reply, handed)

    def fail(self, error: BaseException) -> None:
        """Answer with what went wrong."""
        self.answer(failed(error, {}))


class Connection(asyncio.Protocol):
    """Bytes in, bytes out, and an eye on whether the other side is still there."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._parser = Parser(house.limits)
        self._exchange: Exchange | None = None
        self._advancing = False
        self._closed = False
        self._eof = False
        self._unsent_since: float | None = None
        self._held = 0
        self._midway_since: float | None = None
        self._handed: tuple[Sequence[Job], float] | None = None
        self.authorised = False

    # -- what the loop tells ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has come."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)  # so that we know what is unsent
        if not self._house.joined(self):
            self._transport.write(rendered(Reply(TOO_BUSY), {"Connection": "close"}))
            self.close()

    def data_received(self, data: bytes) -> None:
        """Something was said: whatever was handed over before has arrived."""
        if self._closed:
            return
        self._handed = None
        self._parser.feed(data)
        self._advance()

    def eof_received(self) -> bool:
        """Nothing more will come. Whoever asked for jobs counts as gone: we could not tell."""
        self._eof = True
        exchange = self._exchange
        if exchange is not None and exchange.seeker is not None:
            self._house.leave(exchange.seeker)
            self.answer(exchange, Reply(ABORTED))
        self._advance()
        may_stay_open = self._transport.can_write_eof()  # not so with TLS
        return may_stay_open and (not self._closed or self._handed is not None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side is gone."""
        self._closed = True
        exchange, self._exchange = self._exchange, None
        if exchange is not None and exchange.seeker is not None:
            self._house.leave(exchange.seeker)
        if self._is_unread(exc):
            self._take_back()
        self._handed = None
        self._weigh(0)
        self._house.left(self)

    def _is_unread(self, exc: Exception | None) -> bool:
        """A reset comes when the other side closes while it has something left to read."""
        if self._handed is None:
            return False
        soon = time.monotonic() - self._handed[1] < _TO_BE_READ
        return self._unsent_since is not None or (soon and isinstance(exc, ConnectionError))

    def _take_back(self) -> None:
        """What was handed over last has not arrived."""
        if self._handed is not None:
            self._house.give_back(self._handed[0])
            self._handed = None

    def pause_writing(self) -> None:
        """The other side reads more slowly than we answer: no new request until it has."""
        self._unsent_since = time.monotonic()

    def resume_writing(self) -> None:
        """All is sent."""
        self._unsent_since = None
        if self._handed is not None:
            self._handed = (self._handed[0], time.monotonic())
        self._advance()

    # -- requests --------------------------------------------------------------------------

    def _advance(self) -> None:
        """Begin with the next request, if there is one and the last one is answered."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._exchange is None and not self._closed and self._unsent_since is None:
                request = self._parser.next_request()
                if request is None:
                    break
                self._exchange = Exchange(self, request)
                self._house.serve(self._exchange)
        except Malformed as error:
            self.end(failed(error, {}))
        finally:
            self._advancing = False
        if not self._closed:
            self._settle_down()

    def _settle_down(self) -> None:
        at_rest = self._exchange is None and self._unsent_since is None
        if at_rest and (self._eof or self._house.closing):
            self.close()
        elif not self._weigh(self._parser.held):
            self.end(Reply(TOO_BUSY))
        else:
            self._mind_the_pile()
            if not (at_rest and self._parser.midway):
                self._midway_since = None
            elif self._midway_since is None:
                self._midway_since = time.monotonic()

    def _weigh(self, held: int) -> bool:
        """Tell how much we keep."""
        change, self._held = held - self._held, held
        return change == 0 or self._house.held(change)

    def _mind_the_pile(self) -> None:
        """Whoever sends without waiting for answers may send so much and no more."""
        if self._held > self._house.limits.head:
            self._transport.pause_reading()
        elif not self._transport.is_reading():
            self._transport.resume_reading()

    def check(self, longest: float) -> None:
        """End the connection if a request or an answer has been on its way for too long."""
        latest = time.monotonic() - longest
        if self._unsent_since is not None and self._unsent_since < latest:
            self.abort()
        elif self._midway_since is not None and self._midway_since < latest:
            self.end(Reply(TOO_SLOW))

    # -- answers ---------------------------------------------------------------------------

    def answer(self, exchange: Exchange, reply: Reply, handed: Sequence[Job] = ()) -> bool:
        """Write the answer to the request at hand."""
        if exchange.forgotten:
            self._house.held(-exchange.weight)
        if self._closed or exchange is not self._exchange:
            return False
        self._exchange = None
        if handed and self._eof:
            reply = Reply(ABORTED)
        ends = exchange.wish == "close" or self._house.closing
        self._write(exchange, reply, ends=ends)
        delivered = bool(handed) and not self._eof
        if delivered:
            before = () if self._handed is None else self._handed[0]
            self._handed = ((*before, *handed), time.monotonic())
            self._house.handed(handed)
        if ends:
            self.close()
        else:
            self._advance()
        return delivered

    def forget(self, exchange: Exchange, reply: Reply) -> bool:
        """Answer at once and close; what the request asks for is done without anybody waiting.

        False: too much is to be done already.
        """
        exchange.forgotten = self._house.held(exchange.weight)
        if not exchange.forgotten:
            self._house.held(-exchange.weight)
            self.end(Reply(TOO_BUSY))
            return False
        self._exchange = None
        self._write(exchange, reply, ends=True)
        self.close()
        return True

    def end(self, reply: Reply) -> None:
        """Say why, and close; but leave the other side time to read it, for what it still sends
        would otherwise reset the connection."""
        if self._closed:
            return
        self._closed = True
        self._weigh(0)
        self._transport.write(rendered(reply, {"Connection": "close"}))
        if self._transport.can_write_eof():
            self._transport.write_eof()
            asyncio.get_running_loop().call_later(_LINGER, self._transport.abort)
        else:
            self._transport.close()

    def close(self) -> None:
        """Close as soon as all is sent, and nothing is left that may not have arrived."""
        if self._closed:
            return
        self._closed = True
        if self._handed is None:
            self._transport.close()
            return
        if self._transport.can_write_eof() and not self._eof:
            self._transport.write_eof()
        asyncio.get_running_loop().call_later(_SEE_OFF, self._see_off)

    def _see_off(self) -> None:
        """Whoever closed before our answer came has reset the connection by now."""
        if self._handed is not None:
            socket_ = self._transport.get_extra_info("socket")
            if socket_.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._take_back()
            self._transport.close()

    @property
    def idle(self) -> bool:
        """Is no answer owed?"""
        return self._exchange is None

    def abort(self) -> None:
        """Close, whatever is still to be sent."""
        self._closed = True
        self._transport.abort()

    def authorise(self, token: str, shown: str | None) -> bool:
        """A token that was shown once holds for as long as the connection does."""
        if not self.authorised and shown is not None:
            self.authorised = hmac.compare_digest(token.encode(), shown.encode("utf-8", "replace"))
        return self.authorised

    def _write(self, exchange: Exchange, reply: Reply, *, ends: bool) -> None:
        self._transport.write(rendered(reply, self._house.facts(exchange, reply, ends=ends)))
