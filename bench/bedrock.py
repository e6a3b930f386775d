"""The Bedrock door: full cycles a second, and how soon a waiting client has its job.

The server is a process of its own; the client is one thread that looks at all its sockets, so that
it takes as little as can be of what is measured. A cycle is CreateJob, GetJob, FinishJob.
"""

from __future__ import annotations

import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import NamedTuple

from bench.engines.engine import Engine
from bench.plan import Setup
from bench.result import Cell, Column, Result, Table, Target
from bench.stopwatch import percentile, race

CONNECTIONS = (1, 50)
CROWD = 5
"""So many clients wait for each job that is timed."""

_SERVE = ("-m", "stoker", "serve", "--bedrock", "127.0.0.1:0", "--store")
_WHERE = re.compile(r"bedrock on 127\.0\.0\.1:(\d+)")
_ID = re.compile(rb'"jobID":(\d+)')
_CREATE = (
    b'CreateJob\r\nname: bench\r\ndata: {"user":7,"text":"hello"}\r\nContent-Length: 0\r\n\r\n'
)
_GET = b"GetJob\r\nname: bench\r\nContent-Length: 0\r\n\r\n"
_FINISH = b"FinishJob\r\njobID: %b\r\nContent-Length: 0\r\n\r\n"
_WAIT = b"GetJob\r\nname: b*\r\nConnection: wait\r\nTimeout: 600000\r\nContent-Length: 0\r\n\r\n"
_STATUS = b"Status\r\nContent-Length: 0\r\n\r\n"
_PATIENCE = 60.0
_BREATH = 0.002


class Client:
    """One connection, and where it is in its cycle."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), _PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._step: Callable[[bytes], bool] = self._created

    def begin(self) -> None:
        """Ask for the first job."""
        self.socket.sendall(_CREATE)

    def go_on(self) -> bool:
        """Read an answer and ask for what comes next; is a cycle complete?"""
        return self._step(self.hear())

    def hear(self) -> bytes:
        """One answer; they are short enough to come in one piece."""
        answer = self.socket.recv(65_536)
        if not answer.startswith((b"200", b"404")):
            raise RuntimeError(f"the server said {answer!r}")
        return answer

    def ask(self, request: bytes) -> bytes:
        """A request and its answer."""
        self.socket.sendall(request)
        return self.hear()

    def _created(self, _: bytes) -> bool:
        self.socket.sendall(_GET)
        self._step = self._got
        return False

    def _got(self, answer: bytes) -> bool:
        found = _ID.search(answer)
        # Another client may have taken it, and left us nothing for the moment.
        self.socket.sendall(_GET if found is None else _FINISH % found[1])
        self._step = self._got if found is None else self._finished
        return False

    def _finished(self, _: bytes) -> bool:
        self.begin()
        self._step = self._created
        return True


class Wait(NamedTuple):
    """Milliseconds from the beginning of CreateJob until ..."""

    created: float
    heard: float


def run(engine: Engine, setup: Setup) -> Result:
    """Let few and many clients go round, then wake clients that wait."""
    with engine.place(setup.folder) as place, _serving(place.url) as port:
        turns = {count: partial(_cycles, port, count, setup.plan.seconds) for count in CONNECTIONS}
        rates = race(turns, setup.plan.rounds, setup.along, "bedrock: full cycles")
        rings = setup.plan.rings
        waits = _waits(port, CROWD * rings, setup.along(range(rings), "bedrock: waking"))
    tables = (_rate_table(engine, rates), _wait_table(engine, CROWD * rings, waits))
    return Result(tables, _targets(rates, waits) if engine.name == "sqlite" else ())


@contextmanager
def _serving(url: str) -> Iterator[int]:
    process = subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, *_SERVE, url], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        found = _WHERE.search(process.stderr.readline())
        assert found is not None, "the server did not say where it is"
        yield int(found[1])
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=_PATIENCE)


@contextmanager
def _connected(port: int, count: int) -> Iterator[list[Client]]:
    with ExitStack() as stack:
        clients = [Client(port) for _ in range(count)]
        for client in clients:
            stack.callback(client.socket.close)
        yield clients


def _cycles(port: int, count: int, seconds: float) -> float:
    """Cycles a second of so many clients."""
    done = 0
    with _connected(port, count) as clients, selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
            client.begin()
        start = now = time.perf_counter()
        while now - start < seconds or not done:
            done += sum(key.data.go_on() for key, _ in selector.select(_PATIENCE))
            now = time.perf_counter()
    _drain(port)
    return done / (now - start)


def _drain(port: int) -> None:
    """Finish what the clients left behind, so that every turn begins with an empty queue."""
    with _connected(port, 1) as (client,):
        while found := _ID.search(client.ask(_GET)):
            client.ask(_FINISH % found[1])


def _waits(port: int, count: int, turns: Iterator[int]) -> list[Wait]:
    with (
        _connected(port, 1) as (maker,),
        _connected(port, count) as crowd,
        selectors.DefaultSelector() as selector,
    ):
        for client in crowd:
            selector.register(client.socket, selectors.EVENT_READ, client)
            client.socket.sendall(_WAIT)
        while b'"waiting":%d' % count not in maker.ask(_STATUS):
            _finish_late_ones(maker, selector)
        return [_wait(maker, selector) for _ in turns]


def _wait(maker: Client, selector: selectors.BaseSelector) -> Wait:
    while True:
        # Everybody has to be asleep first: waking is what is measured.
        while _finish_late_ones(maker, selector):
            pass
        start = time.perf_counter()
        maker.socket.sendall(_CREATE)
        woken = [key.data for key, _ in selector.select(_PATIENCE)]
        answers = [client.hear() for client in woken]
        heard = time.perf_counter()
        maker.hear()
        created = time.perf_counter()
        for client, answer in zip(woken, answers, strict=True):
            _finish(maker, client, answer)
        if len(woken) == 1:  # else one was late, and it cannot be told which
            return Wait((created - start) * 1e3, (heard - start) * 1e3)


def _finish_late_ones(maker: Client, selector: selectors.BaseSelector) -> bool:
    """A client that hung up may have had a job on its way, which comes back only now. Has any?"""
    late = selector.select(_BREATH)
    for key, _ in late:
        _finish(maker, key.data, key.data.hear())
    return bool(late)


def _finish(maker: Client, client: Client, answer: bytes) -> None:
    """End the job that a client was given, and let it wait for another."""
    found = _ID.search(answer)
    assert found is not None
    maker.ask(_FINISH % found[1])
    client.socket.sendall(_WAIT)


def _rate_table(engine: Engine, rates: dict[int, list[float]]) -> Table:
    columns = (
        Column("connections"),
        Column("cycles/s, median", ",.0f"),
        Column("cycles/s, best", ",.0f"),
    )
    rows = tuple((count, median(found), max(found)) for count, found in rates.items())
    return Table(
        f"Bedrock door on {engine.title}: CreateJob, GetJob, FinishJob",
        columns,
        rows,
        "One server process, one client process; every answer waits for its commit.",
    )


def _wait_table(engine: Engine, count: int, waits: list[Wait]) -> Table:
    columns = (
        Column("from the beginning of CreateJob until"),
        Column("p50, ms", ",.2f"),
        Column("p99, ms", ",.2f"),
    )
    rows: tuple[tuple[Cell, ...], ...] = (
        _percentiles("a waiting GetJob is answered", [wait.heard for wait in waits]),
        _percentiles("both are answered", [wait.created for wait in waits]),
    )
    return Table(f"Bedrock door on {engine.title}: {count:,} clients wait", columns, rows)


def _percentiles(what: str, times: list[float]) -> tuple[Cell, ...]:
    return (what, percentile(times, 50), percentile(times, 99))


def _targets(rates: dict[int, list[float]], waits: list[Wait]) -> tuple[Target, ...]:
    many = CONNECTIONS[-1]
    heard = percentile([wait.heard for wait in waits], 50)
    return (
        Target(f"Bedrock cycles/s, {many} connections", 3000, median(rates[many]), "{:,.0f}"),
        Target("waiting GetJob, p50", 5.0, heard, "{:.2f} ms", below=True),
    )
