"""The worker's heart: says that it lives, hears what is to stop, and watches the clock.

With the same beat it hears whether there are chores to do, so that nobody has to ask for that.

A session whose beats fail for too long is taken for dead by everybody else, so it is by us: the
handlers are asked to end before their jobs can run a second time elsewhere.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from stoker.desk import Desk
from stoker.errors import StokerError, StoreError
from stoker.worker.context import StopReason
from stoker.worker.crews import Assignment
from stoker.worker.introduction import Introduction

logger = logging.getLogger("stoker.worker")

_WATCH_SECONDS = 0.25
_LONGEST_PAUSE = 2.0
"""Between two beats, however long a session lasts: schedules tick with the chores."""


def pause_between_beats(ttl: float) -> float:
    """How often a heart beats whose session would last so long without; both in seconds."""
    return min(ttl / 4, _LONGEST_PAUSE)


class Heart:
    """Beats for one worker, in a thread of its own."""

    def __init__(
        self,
        desk: Desk,
        ttl: int,
        *,
        introduction: Introduction,
        in_hand: Callable[[], Iterable[Assignment]],
        end: Callable[[Assignment, StopReason], None],
        on_trouble: Callable[[], None] | None,
    ) -> None:
        self._desk = desk
        self._ttl = ttl
        self._introduction = introduction
        self._in_hand = in_hand
        self._end = end
        self._on_trouble = on_trouble
        self.on_beat: Callable[[int], None] | None = None
        """Told of each beat that got through, with the session it was for."""
        self._hurry = threading.Event()
        self._stopping = False
        self._lock = threading.Lock()
        self.session = introduction.open(ttl=ttl)
        self._beaten = time.monotonic()

    def look(self) -> None:
        """Somebody rang for us: beat now, and hear what is to be cancelled."""
        self._hurry.set()

    def stop(self) -> None:
        """Stop beating and end the session."""
        self._stopping = True
        self._hurry.set()

    def run(self) -> None:
        """Beat until stopped; between beats look for jobs that ran out of time."""
        beat_every = pause_between_beats(self._ttl / 1e6)
        next_beat = 0.0
        while not self._stopping:
            now = time.monotonic()
            if now >= next_beat or self._hurry.is_set():
                self._hurry.clear()
                self._beat()
                next_beat = now + beat_every
            self._watch()
            self._hurry.wait(min(_WATCH_SECONDS, beat_every))

    def _beat(self) -> None:
        session = self.session
        try:
            watch = self._on_trouble is not None
            beat = self._desk.dispatch.beat(session, ttl=self._ttl, watch=watch)
        except Exception as error:  # noqa: BLE001 - a heart that stops kills more than one job
            logger.warning("the heartbeat did not get through: %s", error)
            if time.monotonic() - self._beaten > self._ttl * 0.9 / 1e6:
                self.lose(session)
            return
        self._beaten = time.monotonic()
        if not beat.alive:
            self.lose(session)
            return
        if self.on_beat is not None:
            self.on_beat(session)
        self._refresh_introduction(session)
        if beat.troubled and self._on_trouble is not None:
            self._on_trouble()
        cancelled = set(beat.cancelled)
        for assignment in self._in_hand():
            if assignment.context.job.id in cancelled:
                self._end(assignment, StopReason.CANCELLED)

    def _refresh_introduction(self, session: int) -> None:
        try:
            self._introduction.refresh(session, ttl=self._ttl)
        except StokerError as error:
            logger.warning("what this worker knows could not be told: %s", error)

    def lose(self, lost: int) -> None:
        """We were taken for dead: what we hold is no longer ours. Begin again as somebody new."""
        with self._lock:
            if lost != self.session:
                return  # somebody else has noticed before
            logger.warning("this worker's session %d is over; its jobs will run elsewhere", lost)
            for assignment in self._in_hand():
                if assignment.context.job.session == lost:
                    self._end(assignment, StopReason.LOST)
            try:
                self.session = self._introduction.open(ttl=self._ttl)
                self._beaten = time.monotonic()
                self._hurry.set()  # so that whoever is told of beats knows it at once
            except StoreError as error:
                logger.warning("cannot open a new session yet: %s", error)

    def _watch(self) -> None:
        now = self._desk.store.now()
        for assignment in self._in_hand():
            until = assignment.context.job.until
            if until is not None and until <= now:
                self._end(assignment, StopReason.TIMEOUT)
