"""Inside a worker process: what every contestant's handler does, and what the bench is told of it.

All clocks are the system's monotonic one, which all processes share.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

URL = "STOKER_BENCH_URL"
"""The environment's word for the database."""
GO = "STOKER_BENCH_GO"
"""The file that appears when a drain begins; it holds the moment."""
POLL = "STOKER_BENCH_POLL"
"""Seconds between two looks into an empty queue; not set: as the contestant comes."""

STAMP = "@"
"""A payload that begins with it tells when its enqueuing began."""
SIZE = 98
"""With its quotes a payload has a hundred bytes."""

GO_AHEAD_NS = 50_000_000
"""How far ahead the moment lies: time enough for every process to see the file."""

_OUTPUT = os.dup(1)
"""The way to the bench; what a peer does with the standard output later does not matter."""
_LOOK_SECONDS = 0.005
_REPORT_SECONDS = 0.02


def tell(word: str, *figures: float) -> None:
    """One line to the bench; short enough to stay whole among those of other processes."""
    os.write(_OUTPUT, f"bench {word} {' '.join(map(str, figures))}\n".encode())


def url() -> str:
    """The database to work on."""
    return os.environ[URL]


def file() -> str:
    """The database to work on, where it is a file."""
    return url().removeprefix("sqlite:///")


def poll() -> float | None:
    """Seconds between two looks into an empty queue, if the bench has a wish."""
    wish = os.environ.get(POLL)
    return float(wish) if wish else None


class Tally:
    """Counts the handler's beginnings; the first of a process waits for the start of the race."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._lock = threading.Lock()
        self._running = False

    def handle(self, payload: str) -> None:
        """The handler: does nothing but note that it has begun."""
        now = time.monotonic_ns()
        if payload.startswith(STAMP):
            tell("started", now - int(payload[1:].rstrip()))
            return
        if not self._running:
            self._wait_for_the_start()
        self._starts.append(time.monotonic_ns())

    def _wait_for_the_start(self) -> None:
        with self._lock:
            if self._running:
                return
            tell("ready", os.getpid())
            signal = Path(os.environ[GO])
            while not signal.exists():
                time.sleep(_LOOK_SECONDS)
            moment = int(signal.read_text(encoding="ascii"))
            time.sleep(max(0.0, (moment - time.monotonic_ns()) / 1e9))
            self._running = True
            threading.Thread(target=self._report, name="tally", daemon=True).start()

    def _report(self) -> None:
        told = 0
        while True:
            time.sleep(_REPORT_SECONDS)
            count = len(self._starts)
            if count > told:
                told = count
                tell("count", os.getpid(), count, self._starts[count - 1])
