"""A thread that listens, beats, and looks after the other peers.

A ring is a hint, and so is an event: whatever matters is looked up now and then, too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from stoker.desk import Desk
from stoker.store.rings import session_ring
from stoker.worqr.acts import Acts
from stoker.worqr.events import Event, EventType, read
from stoker.worqr.forms import Names
from stoker.worqr.settings import Settings

logger = logging.getLogger("stoker.worqr")

_TROUBLE_PAUSE = 0.5


class Told(NamedTuple):
    """Whom a watchman tells, in its own thread."""

    event: Callable[[Event], None]
    failed: Callable[[int], None]
    """The worker with this session was taken for dead."""
    cancelled: Callable[[tuple[int, ...]], None]
    """These tasks of the worker are not wanted any more."""


class Watchman(threading.Thread):
    """One peer's watchman."""

    def __init__(self, desk: Desk, names: Names, settings: Settings, told: Told) -> None:
        super().__init__(name="worqr-watchman", daemon=True)
        self._desk = desk
        self._acts = Acts(desk, names, settings)
        self._names = names
        self._settings = settings
        self._told = told
        self._ear = desk.store.bell.listen()
        self._stopping = threading.Event()
        self._beat_at = 0.0
        self._look_at = time.monotonic() + settings.worker_cleanup_interval
        self._session: int | None = None
        self.queues: frozenset[str] = frozenset()
        """The queues the worker works on, by their whole names."""

    @property
    def session(self) -> int | None:
        """The session to beat for, while the worker is started. One that is new has just been
        heard of, and needs no beat yet."""
        return self._session

    @session.setter
    def session(self, session: int | None) -> None:
        if session != self._session:
            self._beat_at = time.monotonic() + self._settings.worker_heartbeat_interval
            self._session = session

    def wake(self) -> None:
        """There is something else to watch."""
        self._ear.interrupt()

    def stop(self) -> None:
        """End, as soon as may be."""
        self._stopping.set()
        self._ear.interrupt()

    def run(self) -> None:
        """Watch until stopped."""
        while not self._stopping.is_set():
            try:
                self._hear(self._ear.wait(self._patience()))
                self._see_to_the_time()
            except Exception as error:  # noqa: BLE001 - a watchman does not leave
                logger.warning("the store is in trouble: %s", error)
                self._told.event(Event(None, EventType.ERROR, str(error)))
                self._stopping.wait(_TROUBLE_PAUSE)
        self._ear.close()

    def _patience(self) -> float:
        until = self._look_at if self.session is None else min(self._look_at, self._beat_at)
        return max(0.0, until - time.monotonic())

    def _see_to_the_time(self) -> None:
        now = time.monotonic()
        if self.session is not None and now >= self._beat_at:
            self._beat(self.session)
        if now >= self._look_at:
            self._look_at = now + self._settings.worker_cleanup_interval
            self._acts.clean_up()
            self._tell_of_work(self.queues)

    def _beat(self, session: int) -> None:
        self._beat_at = time.monotonic() + self._settings.worker_heartbeat_interval
        beat = self._acts.beat(session)
        if not beat.alive:
            self._told.failed(session)
        elif beat.cancelled:
            self._told.cancelled(beat.cancelled)

    def _hear(self, rings: set[str]) -> None:
        if not rings:
            return
        heard = read(rings)
        notes = self._desk.store.notes(heard.notes) if heard.notes else {}
        ours = [event for event in heard.events(notes) if event.queue in self.queues]
        for event in ours:
            self._tell(event)
        counted = {event.queue for event in ours if event.type is EventType.WORK}
        self._tell_of_work((heard.rest & self.queues) - counted)
        if self.session is not None and session_ring(self.session) in heard.rest:
            self._beat(self.session)

    def _tell_of_work(self, queues: Iterable[str]) -> None:
        """Tell how much there is to do, if there is anything."""
        for queue in sorted(queues):
            waiting = self._acts.count(self._names.short(queue) or "")
            if waiting:
                self._tell(Event(queue, EventType.WORK, str(waiting)))

    def _tell(self, event: Event) -> None:
        queue = self._names.short(event.queue or "")
        self._told.event(Event(queue, event.type, event.message))
