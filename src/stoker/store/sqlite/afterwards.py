"""Rings for what somebody else commits: Stoker is not told of it, so it watches the file.

While a transaction that has written is open nobody else can commit. So the first commit that is
seen after a Change was written is its own, or it was rolled back and no harm is done by ringing.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakSet

from stoker.errors import StoreError

_LONGEST = 60.0
"""Seconds. Whoever takes longer to commit leaves it to the poll of those who wait."""
_SHORTEST_PAUSE = 0.001
_LONGEST_PAUSE = 0.05


class _Due(NamedTuple):
    """Names to ring for when the file has another version."""

    version: int
    names: set[str]
    since: float


class Afterwards:
    """Watches by a thread, which is there only while something is to be rung for."""

    def __init__(self, version: Callable[[], int], ring: Callable[[set[str]], None]) -> None:
        self._version = version
        self._ring = ring
        self._lock = threading.Lock()
        self._due: list[_Due] = []
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        _all.add(self)

    def anew(self) -> Afterwards:
        """The same in a forked child, where no thread lives and the lock may be locked for ever."""
        _all.discard(self)
        return Afterwards(self._version, self._ring)

    def ring(self, names: set[str], version: int) -> None:
        """Ring as soon as the file has another version."""
        with self._lock:
            self._due.append(_Due(version, names, time.monotonic()))
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(
                    target=self._watch, name="stoker-afterwards", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """Look once more, and watch no longer."""
        self._closing.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _watch(self) -> None:
        while self._look():
            if self._closing.wait(self._pause()):
                self._look()
                return

    def _look(self) -> bool:
        """Ring for what is due; is there more to watch for?"""
        with self._lock:
            try:
                version = self._version()
            except StoreError:
                self._due.clear()  # nobody can use the file now
            names = {name for due in self._due if due.version != version for name in due.names}
            still = time.monotonic() - _LONGEST
            self._due = [due for due in self._due if due.version == version and due.since > still]
            if names:
                self._ring(names)
            if not self._due:
                self._thread = None
            return bool(self._due)

    def _pause(self) -> float:
        """Short for a transaction that has just begun, longer for one that takes its time."""
        with self._lock:
            age = time.monotonic() - max(due.since for due in self._due)
        return min(max(age / 4, _SHORTEST_PAUSE), _LONGEST_PAUSE)


_all: WeakSet[Afterwards] = WeakSet()


@atexit.register
def _look_once_more() -> None:
    """A program that commits and ends at once has rung as well."""
    for each in list(_all):
        each.close()
