"""The Bedrock door: a TCP server that speaks the line protocol."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Sequence
from typing import NamedTuple

from stoker.desk import Desk
from stoker.doors.bedrock.commands import Circumstances, Question, intent_of
from stoker.doors.bedrock.connection import Connection, Exchange
from stoker.doors.bedrock.counter import Counter
from stoker.doors.bedrock.intents import Intent
from stoker.doors.bedrock.protocol import Limits, Reply
from stoker.doors.bedrock.refusals import UNAUTHORIZED, Refusal
from stoker.doors.bedrock.values import integer
from stoker.doors.bedrock.waiting import Seeker
from stoker.errors import StokerError
from stoker.kernel.job import Job

_NODE = "stoker"
_QUEUED = Reply("202 Successfully queued")
_BACKLOG = 1024
_LONGEST_CHECK = 5.0
_GRACE = 10.0
_TLS_GOODBYE = 1.0
_DRAIN = 0.01
_WITHOUT_COUNT = frozenset({"ping", "status"})


class Settings(NamedTuple):
    """How the door is set up."""

    host: str = "127.0.0.1"
    port: int = 8888
    token: str | None = None
    """What clients must show in the header `authToken`."""
    tls: ssl.SSLContext | None = None
    question: Question | None = None
    """Answers Query, where it is switched on."""
    tries: int | None = 10
    """How often a job is given out at most before it has failed; None: without end."""
    limits: Limits = Limits()
    connections: int = 10_000
    buffered: int = 256 * 2**20
    """Bytes of unfinished requests of all connections together."""
    request_seconds: float = 60.0
    """How long one request may be on its way."""


class BedrockDoor:
    """Opened and closed by whoever runs the process."""

    def __init__(self, desk: Desk, settings: Settings) -> None:
        self.limits = settings.limits
        self.closing = False
        self._settings = settings
        self._desk = desk
        self._connections: set[Connection] = set()
        self._held = 0
        self._commits = 0

    async def open(self) -> str:
        """Begin to serve; tells where."""
        self._loop = asyncio.get_running_loop()
        settings = self._settings
        try:
            self._server = await self._loop.create_server(
                lambda: Connection(self),
                settings.host,
                settings.port,
                ssl=settings.tls,
                ssl_shutdown_timeout=None if settings.tls is None else _TLS_GOODBYE,
                backlog=_BACKLOG,
                start_serving=False,
            )
        except OSError as error:
            where = f"{settings.host}:{settings.port}"
            raise StokerError(f"cannot listen on {where}: {error.strerror or error}") from None
        self._counter = Counter(self._desk)
        self._around = Circumstances(
            self._desk, settings.tries, settings.question, self._counter.waiting
        )
        self._check_soon()
        await self._server.start_serving()
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"bedrock on [{host}]:{port}" if ":" in host else f"bedrock on {host}:{port}"

    async def close(self) -> None:
        """Let nobody in, answer everybody who is here, and stop."""
        self.closing = True
        self._check_later.cancel()
        self._server.close()
        self._counter.stop_waiting()
        for connection in [each for each in self._connections if each.idle]:
            connection.close()
        deadline = time.monotonic() + _GRACE
        while self._connections and time.monotonic() < deadline:
            await asyncio.sleep(_DRAIN)
        for connection in list(self._connections):
            connection.abort()
        await self._counter.close()

    # -- what connections need -------------------------------------------------------------

    def joined(self, connection: Connection) -> bool:
        """A connection has come; False: there are too many."""
        if self.closing or len(self._connections) >= self._settings.connections:
            return False
        self._connections.add(connection)
        return True

    def left(self, connection: Connection) -> None:
        """A connection has gone."""
        self._connections.discard(connection)

    def held(self, change: int) -> bool:
        """So many bytes more are kept for connections; False: that is too much."""
        self._held += change
        return change <= 0 or self._held <= self._settings.buffered

    def serve(self, exchange: Exchange) -> None:
        """Answer a request, now or later."""
        connection, headers = exchange.connection, exchange.request.headers
        token = self._settings.token
        try:
            if token is not None and not connection.authorise(token, headers.get("authtoken")):
                raise Refusal(UNAUTHORIZED, "show the server's token in the header authToken")
            intent = intent_of(self._around, exchange.request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            exchange.fail(error)
            return
        delay = self._delay(exchange)
        if (exchange.wish == "forget" or delay > 0) and not connection.forget(exchange, _QUEUED):
            return
        if delay > 0:
            self._loop.call_later(delay, self._carry_out, intent, exchange)
        else:
            exchange.seeker = self._counter.carry_out(intent, exchange)

    def _carry_out(self, intent: Intent, exchange: Exchange) -> None:
        """Its time has come, if we are still there."""
        if not self.closing:
            exchange.seeker = self._counter.carry_out(intent, exchange)

    def _delay(self, exchange: Exchange) -> float:
        """Seconds until the moment at which the request is to be carried out."""
        at = exchange.request.headers.get("commandexecutetime")
        return 0.0 if at is None else (integer(at) - self._desk.store.now()) / 1e6

    def facts(self, exchange: Exchange, reply: Reply, *, ends: bool) -> dict[str, str]:
        """What the headers of a reply tell about the server, in the order of their names."""
        spent = str(max((time.perf_counter_ns() - exchange.begun) // 1000, 1))
        facts = {}
        if reply.wrote:
            self._commits += 1
        if exchange.request.verb not in _WITHOUT_COUNT and reply is not _QUEUED:
            facts["commitCount"] = str(self._commits)
        if ends:
            facts["Connection"] = "close"
        facts["nodeName"] = _NODE
        if reply.wrote:
            facts["processTime"] = spent
        facts["totalTime"] = spent
        return facts

    def leave(self, seeker: Seeker) -> None:
        """Somebody who asked for jobs is gone."""
        self._counter.leave(seeker)

    def handed(self, jobs: Sequence[Job]) -> None:
        """Jobs were handed over."""
        self._counter.handed(jobs)

    def give_back(self, jobs: Sequence[Job]) -> None:
        """Jobs could not be handed over."""
        self._counter.give_back(jobs)

    def _check_soon(self) -> None:
        every = min(_LONGEST_CHECK, self._settings.request_seconds / 2)
        self._check_later = self._loop.call_later(every, self._check)

    def _check(self) -> None:
        self._check_soon()
        for connection in list(self._connections):
            connection.check(self._settings.request_seconds)
