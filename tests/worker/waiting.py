"""Waiting for what happens elsewhere: on a condition, with a limit that no sane run comes near."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

LIMIT = 30.0
_LOOK_AGAIN = 0.005


def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {LIMIT:g} s in vain {what}".strip())
        time.sleep(_LOOK_AGAIN)


class Gate:
    """Holds handlers, sync and async, until the test opens it; counts those that came."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._lock = threading.Lock()
        self.inside = 0
        self.came = 0
        self.peak = 0

    def open(self) -> None:
        self._open.set()

    def _enter(self) -> None:
        with self._lock:
            self.came += 1
            self.inside += 1
            self.peak = max(self.peak, self.inside)

    def _leave(self) -> None:
        with self._lock:
            self.inside -= 1

    def pass_through(self) -> None:
        """For sync handlers."""
        self._enter()
        try:
            assert self._open.wait(LIMIT), "the gate stayed shut"
        finally:
            self._leave()

    async def pass_through_async(self) -> None:
        """For async handlers."""
        self._enter()
        try:
            while not self._open.is_set():
                await asyncio.sleep(_LOOK_AGAIN)
        finally:
            self._leave()
