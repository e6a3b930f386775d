"""The pulse: beats for worker processes that are too busy to do it themselves.

It has a thread of its own, so that nothing else the supervisor does can hold it up. It looks at the
sessions first, which costs next to nothing, and beats for those whose heart is late.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from stoker.desk import Desk

logger = logging.getLogger("stoker.fleet")


class Pulse:
    """Keeps sessions alive until it is stopped.

    A heart beats each quarter of the ttl. One that is half a beat late, and so has five eighths
    left, is helped; then there is time for several more tries.
    """

    def __init__(self, desk: Desk, ttl: int, sessions: Callable[[], Iterable[int]]) -> None:
        self._desk = desk
        self._ttl = ttl
        self._sessions = sessions
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stoker-pulse", daemon=True)

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Let the sessions be."""
        self._over.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._over.wait(self._ttl / 8 / 1e6):
            try:
                self.help_the_late()
            except Exception as error:  # noqa: BLE001 - the next beat may get through
                logger.warning("could not beat for the workers: %s", error)

    def help_the_late(self) -> list[int]:
        """Beat for the sessions that need it; which these were."""
        late_at = self._desk.store.now() + self._ttl * 5 // 8
        late = {each.id for each in self._desk.store.sessions() if each.expires_at <= late_at}
        helped = [session for session in self._sessions() if session in late]
        for session in helped:
            self._desk.dispatch.beat(session, ttl=self._ttl)
        return helped
