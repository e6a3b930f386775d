"""Inside an enqueuing process: takes the bench's orders and tells how long each took.

`stamp` enqueues one job that tells when it was enqueued; `single 500 2` enqueues 500 jobs one at a
time, `many 500 2` in bulk where the contestant can, both for at most two seconds.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from bench.peers.drivers.tally import SIZE, STAMP, tell

_PAYLOAD = "x" * SIZE
_TOGETHER = 1000

One = Callable[[str], object]
Many = Callable[[list[str]], object]
AsyncOne = Callable[[str], Awaitable[object]]
AsyncMany = Callable[[list[str]], Awaitable[object]]


class _Order(NamedTuple):
    """What the bench wants."""

    name: str
    jobs: int
    seconds: float

    def portions(self, *, in_bulk: bool) -> Iterator[int]:
        """How many jobs to enqueue next, until all are, or the time is up."""
        most = _TOGETHER if self.name == "many" and in_bulk else 1
        deadline = time.perf_counter() + self.seconds
        for done in range(0, self.jobs, most):
            if time.perf_counter() > deadline:
                return
            yield min(most, self.jobs - done)


def _order(line: str) -> _Order:
    name, *figures = line.split()
    jobs, seconds = figures or (1, 0)
    return _Order(name, int(jobs), float(seconds))


def _stamp() -> str:
    return f"{STAMP}{time.monotonic_ns()}".ljust(SIZE)


def serve(one: One, many: Many | None) -> None:
    """Obey until the input ends. `many` enqueues in one step, where the contestant can."""
    tell("open")
    for line in sys.stdin:
        order = _order(line)
        if order.name == "stamp":
            one(_stamp())
            tell("done")
            continue
        gc.collect()
        begun, done = time.perf_counter(), 0
        for portion in order.portions(in_bulk=many is not None):
            if many is None or order.name == "single":
                one(_PAYLOAD)
            else:
                many([_PAYLOAD] * portion)
            done += portion
        tell("done", time.perf_counter() - begun, done)


async def serve_async(one: AsyncOne, many: AsyncMany | None) -> None:
    """The same where enqueuing has to be awaited."""
    tell("open")
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = _order(line)
        if order.name == "stamp":
            await one(_stamp())
            tell("done")
            continue
        gc.collect()
        begun, done = time.perf_counter(), 0
        for portion in order.portions(in_bulk=many is not None):
            if many is None or order.name == "single":
                await one(_PAYLOAD)
            else:
                await many([_PAYLOAD] * portion)
            done += portion
        tell("done", time.perf_counter() - begun, done)
