"""The pulse: beats for worker processes that are too busy to do it themselves.

It has a thread of its own, so that nothing else the supervisor does can hold it up. The workers
tell their supervisor of each beat, so that the store is asked for nothing while all is well.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from stoker.desk import Desk

logger = logging.getLogger("stoker.fleet")


class Pulse:
    """Keeps sessions alive until it is stopped; `last_beats` says when each was heard of last.

    A heart beats each quarter of the ttl, and we look each eighth. Who has been silent for three
    eighths is helped when half of the ttl is left; then there is time for several more tries.
    """

    def __init__(
        self,
        desk: Desk,
        ttl: int,
        last_beats: Callable[[], Mapping[int, float]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._desk = desk
        self._ttl = ttl
        self._last_beats = last_beats
        self._clock = clock
        self._helped: dict[int, float] = {}
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
        beats = self._last_beats()
        late_since = self._clock() - self._ttl * 3 / 8 / 1e6
        known = {session: max(at, self._helped.get(session, at)) for session, at in beats.items()}
        self._helped = {session: at for session, at in self._helped.items() if session in beats}
        late = [session for session, at in known.items() if at <= late_since]
        for session in late:
            self._desk.dispatch.beat(session, ttl=self._ttl)
            self._helped[session] = self._clock()
        return late
