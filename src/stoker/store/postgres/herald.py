"""The herald: tells other processes what was rung here, soon if that is seldom, else in bulk.

The first ring after a silence goes out at once. What follows too soon is left to a thread, so that
nobody who rings has to wait. A silence lasts a few milliseconds; in a flood of rings each one lasts
twice as long as the one before, up to a twentieth of a second, so that few messages carry them all.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

logger = logging.getLogger("stoker.store")

_SHORTEST, _LONGEST = 0.005, 0.05


class Herald:
    """Has something to tell now and then."""

    def __init__(self, tell: Callable[[Sequence[str]], None]) -> None:
        self._tell = tell
        self.forked()

    def forked(self) -> None:
        """Begin anew: threads are not carried into a child."""
        self._untold: set[str] = set()
        self._put_off = 0
        # Entered by itself: an interrupt may stop a condition's own `with` between its steps.
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._silence = _SHORTEST
        self._silent_until = 0.0
        self._over = False

    def announce(self, names: Iterable[str]) -> None:
        """Let the others know: at once if there was silence, else as soon as may be."""
        if self.may_speak():
            self._say(sorted(names))
            return
        with self._lock:
            if not self._over:
                self._leave_to_thread(names)

    def may_speak(self) -> bool:
        """Is there silence? Then whoever asks is to say something, and there is silence again."""
        with self._lock:
            if self._over or self._untold or time.monotonic() < self._silent_until:
                return False
            self._be_silent(_SHORTEST)
            return True

    def _leave_to_thread(self, names: Iterable[str]) -> None:
        if not self._untold:  # else it has been told that there is something
            self._news.notify()
        self._untold.update(names)
        self._put_off += 1
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="stoker-herald", daemon=True)
            thread.start()
            self._thread = thread

    def close(self) -> None:
        """Say what is left to be said, and end."""
        with self._lock:
            self._over = True
            self._news.notify()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _run(self) -> None:
        while names := self._wait():
            self._say(names)

    def _wait(self) -> list[str]:
        """Until there is something to tell and it is time to, or nothing more to come."""
        with self._lock:
            while not self._over and (left := self._seconds_left()) != 0:
                self._news.wait(left)
            flood = self._put_off > self._silence / _SHORTEST
            self._be_silent(min(2 * self._silence, _LONGEST) if flood else _SHORTEST)
            self._put_off = 0
            names, self._untold = sorted(self._untold), set()
            return names

    def _seconds_left(self) -> float | None:
        """Until it is time to speak; None if there is nothing to say."""
        return max(0.0, self._silent_until - time.monotonic()) if self._untold else None

    def _be_silent(self, seconds: float) -> None:
        self._silence = seconds
        self._silent_until = time.monotonic() + seconds

    def _say(self, names: Sequence[str]) -> None:
        try:
            self._tell(names)
        except Exception as error:  # noqa: BLE001 - a lost ring costs only time
            logger.debug("a ring was lost: %s", error)
