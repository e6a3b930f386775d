"""Threads that beat for a heart, so that the heart itself never waits for the store.

One is enough as long as it is answered. A beat that is still under way when the next one is due may
wait on a connection that is dead, while another would do: so the next is made by somebody else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

_MOST = 3
_THREAD = "stoker-beat"


class Beaters:
    """Make one beat for each call."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._calls: SimpleQueue[bool] = SimpleQueue()
        self._threads = 0
        self._busy: set[threading.Thread] = set()

    def call(self, *, in_company: bool = False) -> None:
        """Beat as soon as somebody can; in company at once, even if others still wait for their
        answers, unless these are too many."""
        if len(self._busy) == self._threads and self._threads < (_MOST if in_company else 1):
            self._threads += 1
            threading.Thread(target=self._run, name=_THREAD, daemon=True).start()
        if self._calls.empty():
            self._calls.put(True)

    def close(self) -> None:
        """Beat no more; answers that are still under way are not waited for."""
        for _ in range(self._threads):
            self._calls.put(False)

    def _run(self) -> None:
        me = threading.current_thread()
        while self._calls.get():
            self._busy.add(me)
            self._beat()
            self._busy.discard(me)
