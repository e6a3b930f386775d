"""The tender: a second boat, for as long as there is more to carry than one can.

While a server is busy with what one of them brought, the other packs or unpacks. It goes out when
it is called, goes on as long as each trip brings all that was asked for, and then waits again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Tender:
    """Makes trips in a thread of its own, which begins with the first call."""

    def __init__(self, trip: Callable[[], bool]) -> None:
        self._trip = trip
        """Did it bring all that was asked for?"""
        self._called = threading.Event()
        self._under_way = threading.Lock()
        self._thread: threading.Thread | None = None
        self._over = False

    def call(self) -> None:
        """There is enough for two."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="stoker-tender", daemon=True)
            self._thread.start()
        self._called.set()

    def recall(self) -> None:
        """No more trips until the next call; one that is under way is waited for."""
        self._called.clear()
        with self._under_way:
            pass

    def close(self) -> None:
        """No more trips at all."""
        self.recall()
        self._over = True
        self._called.set()

    def _run(self) -> None:
        while self._called.wait() and not self._over:
            with self._under_way:
                if self._called.is_set() and not self._trip():
                    self._called.clear()
