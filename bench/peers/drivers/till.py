"""Inside an enqueuing process: takes the bench's orders and tells how long each took."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

from bench.peers.drivers.tally import SIZE, STAMP, tell

_TOGETHER = 1000

One = Callable[[str], object]
Many = Callable[[list[str]], object]


def serve(one: One, many: Many | None) -> None:
    """Obey until the input ends. `many` enqueues in one step, where the contestant can."""
    tell("open")
    for line in sys.stdin:
        order, _, number = line.strip().partition(" ")
        if order == "stamp":
            one(f"{STAMP}{time.monotonic_ns()}".ljust(SIZE))
            tell("done")
            continue
        count = int(number)
        gc.collect()
        begun = time.perf_counter()
        if order == "many" and many is not None:
            _in_bulk(many, count)
        else:
            _one_by_one(one, count)
        tell("done", time.perf_counter() - begun)


def _one_by_one(one: One, count: int) -> None:
    payload = "x" * SIZE
    for _ in range(count):
        one(payload)


def _in_bulk(many: Many, count: int) -> None:
    payload = "x" * SIZE
    for done in range(0, count, _TOGETHER):
        many([payload] * min(_TOGETHER, count - done))
