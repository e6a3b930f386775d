"""The herald: tells other processes what was rung here, at most twenty times a second.

The first ring after a silence goes out at once. What follows too soon is left to a thread, so that
nobody who rings has to wait.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

logger = logging.getLogger("stoker.store")

_PAUSE = 0.05


class Herald:
    """Has something to tell now and then."""

    def __init__(self, tell: Callable[[Sequence[str]], None]) -> None:
        self._tell = tell
        self.forked()

    def forked(self) -> None:
        """Begin anew: threads are not carried into a child."""
        self._untold: set[str] = set()
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None
        self._told_at = 0.0
        self._over = False

    def announce(self, names: Iterable[str]) -> None:
        """Let the others know: at once if there was silence, else as soon as may be."""
        with self._news:
            self._untold.update(names)
            if self._over or self._is_too_early():
                self._leave_to_thread()
                return
            self._told_at = time.monotonic()
            now, self._untold = sorted(self._untold), set()
        self._say(now)

    def _leave_to_thread(self) -> None:
        self._news.notify()
        if self._thread is None and not self._over:
            self._thread = threading.Thread(target=self._run, name="stoker-herald", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Say what is left to be said, and end."""
        with self._news:
            self._over = True
            self._news.notify()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _run(self) -> None:
        while names := self._wait():
            self._say(names)

    def _wait(self) -> list[str]:
        """Until there is something to tell and it is time to, or nothing more to come."""
        with self._news:
            while not self._over and (not self._untold or self._is_too_early()):
                self._news.wait(_PAUSE if self._untold else None)
            self._told_at = time.monotonic()
            names, self._untold = sorted(self._untold), set()
            return names

    def _is_too_early(self) -> bool:
        return time.monotonic() < self._told_at + _PAUSE

    def _say(self, names: Sequence[str]) -> None:
        try:
            self._tell(names)
        except Exception as error:  # noqa: BLE001 - a lost ring costs only time
            logger.debug("a ring was lost: %s", error)
