"""The HTTP door: requests a second, beside a bare Starlette route that does nothing.

Server and client are processes of their own; the client is as lean as Python allows, so that what
is measured is mostly the server.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from statistics import median

import msgspec

from bench.engines.engine import Engine
from bench.plan import Setup
from bench.result import Column, Result, Table, Target
from bench.stopwatch import lower_ratio
from stoker.worker.loops import loop_factory

CONNECTIONS = (1, 32, 50)
MEASURED = 32
"""Connections at which the door is compared with the bare route."""

_BATCH = 1000
_NOTHING = "a bare Starlette route"
_ONE_JOB = "POST /v1/jobs"
_MANY_JOBS = f"POST /v1/jobs/batch of {_BATCH:,}, jobs"
_OF_BARE = ("sqlite", "redis")
"""Where enqueuing is to reach half of the bare route; PostgreSQL's commits take their time."""
_JOB = b'{"queue":"bench","name":"bench","payload":{"user":7,"text":"as long as many a payload"}}'
_BATCH_BODY = b'{"jobs":[%b]}' % b",".join([_JOB] * _BATCH)
_JOBBER = b'{"type":"bench","payload":{"user":7,"text":"as long as many a payload"}}'
_CLAIM = b'{"queues":["bench"]}'
_WHERE = re.compile(r"http on 127\.0\.0\.1:(\d+)")
_SERVE = ("-m", "stoker", "serve", "--http", "127.0.0.1:0", "--store")
_BARE = ("-m", "bench.http")


class Connection:
    """Keep-alive, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, port: int) -> Connection:
        """A new one."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def post(self, path: bytes, body: bytes) -> bytes:
        """Send a request and wait for the body of its answer."""
        head = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        self._writer.write(head % (path, len(body)) + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        at = answer.index(b"content-length: ") + 16
        length = int(answer[at : answer.index(b"\r", at)])
        if answer[9:10] != b"2":
            raise RuntimeError(answer + await self._reader.readexactly(length))
        return await self._reader.readexactly(length)

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


Turn = Callable[[Connection], Awaitable[int]]
"""Something done over and over; how many things were done."""


async def _bare(connection: Connection) -> int:
    await connection.post(b"/", _JOB)
    return 1


async def _enqueue(connection: Connection) -> int:
    await connection.post(b"/v1/jobs", _JOB)
    return 1


async def _jobber(connection: Connection) -> int:
    await connection.post(b"/jobber/queue", _JOBBER)
    return 1


async def _batch(connection: Connection) -> int:
    await connection.post(b"/v1/jobs/batch", _BATCH_BODY)
    return _BATCH


async def _cycle(connection: Connection) -> int:
    granted = msgspec.json.decode(await connection.post(b"/v1/claims", _CLAIM))
    for job in granted["jobs"]:
        finish = b'{"lease":"%b","result":1}' % job["lease"].encode()
        await connection.post(b"/v1/jobs/%d/finish" % job["id"], finish)
    return len(granted["jobs"])


async def _rate(port: int, turn: Turn, connections: int, seconds: float) -> float:
    """How often a second all connections together do it."""
    clients = [await Connection.to(port) for _ in range(connections)]
    until = time.perf_counter() + seconds

    async def repeat(connection: Connection) -> int:
        done = await turn(connection)  # once at least, however little time there is
        while time.perf_counter() < until:
            done += await turn(connection)
        return done

    begun = time.perf_counter()
    done = sum(await asyncio.gather(*map(repeat, clients)))
    passed = time.perf_counter() - begun
    for client in clients:
        client.close()
    return done / passed


def rate(port: int, turn: Turn, connections: int, seconds: float) -> float:
    """The same, from outside of any loop."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_rate(port, turn, connections, seconds))


@contextmanager
def served(*words: str) -> Iterator[int]:
    """A server in a process of its own; its port."""
    process = subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, *words], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        where = next(match for line in process.stderr if (match := _WHERE.search(line)))
        yield int(where[1])
    finally:
        process.terminate()
        process.communicate()


def serve_bare() -> None:
    """A route that reads its body and answers, and that is all."""
    import uvicorn  # noqa: PLC0415
    from starlette.applications import Starlette  # noqa: PLC0415
    from starlette.requests import Request  # noqa: PLC0415
    from starlette.responses import Response  # noqa: PLC0415
    from starlette.routing import Route  # noqa: PLC0415

    async def nothing(request: Request) -> Response:
        await request.body()
        return Response(b'{"id":1,"fresh":true}', 201, media_type="application/json")

    config = uvicorn.Config(
        Starlette(routes=[Route("/", nothing, methods=["POST"])]),
        port=0,
        log_config=None,
        access_log=False,
    )
    sock = config.bind_socket()
    sock.listen()
    print(f"http on 127.0.0.1:{sock.getsockname()[1]}", file=sys.stderr, flush=True)
    uvicorn.Server(config).run([sock])


def run(engine: Engine, setup: Setup) -> Result:
    """In turns, so that a noisy moment hits all alike."""
    seconds, rounds = setup.plan.seconds, setup.plan.rounds
    with (
        engine.place(setup.folder) as place,
        served(*_BARE) as bare,
        served(*_SERVE, place.url) as door,
    ):
        found: Rates = {}
        for _ in setup.along(range(rounds), f"http on {engine.title}"):
            for name, port, turn in (
                (_NOTHING, bare, _bare),
                (_ONE_JOB, door, _enqueue),
                ("POST /jobber/queue", door, _jobber),
                ("claim and finish", door, _cycle),
            ):
                for connections in CONNECTIONS:
                    rates = found.setdefault((name, connections), [])
                    rates.append(rate(port, turn, connections, seconds))
            rates = found.setdefault((_MANY_JOBS, 1), [])
            rates.append(rate(door, _batch, 1, seconds))
            place.settle()
    return Result((_table(engine, found),), tuple(_targets(engine, found)))


Rates = dict[tuple[str, int], list[float]]
"""Round by round, by what was asked for and over how many connections."""


def _table(engine: Engine, rates: Rates) -> Table:
    names = dict.fromkeys(name for name, _ in rates)
    columns = (
        Column("what, a second"),
        *(
            Column(f"{count} connections" if count > 1 else "1 connection", ",.0f")
            for count in CONNECTIONS
        ),
    )
    rows = tuple((name, *(_middle(rates, name, count) for count in CONNECTIONS)) for name in names)
    note = "Medians. One server process, one client process; every answer waits for its commit."
    return Table(f"HTTP on {engine.title}", columns, rows, note)


def _middle(rates: Rates, name: str, count: int) -> float | None:
    found = rates.get((name, count))
    return None if found is None else median(found)


def _targets(engine: Engine, rates: Rates) -> Iterator[Target]:
    if engine.name in _OF_BARE:
        share = lower_ratio(rates[_ONE_JOB, MEASURED], rates[_NOTHING, MEASURED])
        what = f"HTTP enqueue on {engine.title}, {MEASURED} connections, of a bare route"
        yield Target(what, 0.5, share)
    batch = median(rates[_MANY_JOBS, 1])
    yield Target(f"HTTP batch on {engine.title}, jobs/s", 50_000, batch, "{:,.0f}")


if __name__ == "__main__":
    serve_bare()
