"""Doormen: they ask the throttlers of queues which jobs may start.

Each has a thread of its own, so that a throttler that takes its time, or never comes back, holds up
nobody but its own queue. What it admits is brought in by the ferry, which alone claims jobs; until
then places are kept free for it, though not for ever.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Container

from stoker.desk import Desk
from stoker.desk.throttle import Throttler
from stoker.desk.throttling import LOOK_AGAIN, Ruling
from stoker.kernel.job import Job

logger = logging.getLogger("stoker.worker")

_LONGEST_SLEEP = 5.0
_TROUBLE_PAUSE = 1.0
KEPT_FOR = 0.5
"""Places are kept so many seconds for a throttler that takes its time."""
_FERRY_TAKES = 10.0


class Doorman:
    """Asks the throttler of one queue, whenever there may be something to ask."""

    def __init__(self, desk: Desk, queue: str, throttler: Throttler, owner: str) -> None:
        self.queue = queue
        self._desk = desk
        self._throttler = throttler
        self._owner = f"{owner}/{queue}"
        self._woken = threading.Event()
        self._over = threading.Event()

    def wake(self) -> None:
        """Something has arrived or ended, or a place is free."""
        self._woken.set()

    def stop(self) -> None:
        """Ask no more."""
        self._over.set()
        self._woken.set()

    def run(self, lobby: Lobby) -> None:
        """Ask until stopped."""
        while not self._over.is_set():
            self._woken.clear()
            try:
                patience = self._look(lobby)
            except Exception as error:  # noqa: BLE001 - whatever it is, the worker goes on
                patience = 0.0
                if not self._over.wait(_TROUBLE_PAUSE):
                    logger.warning("the throttler of %s could not be asked: %s", self.queue, error)
            self._woken.wait(patience)

    def _look(self, lobby: Lobby) -> float:
        """Ask once; after how many seconds to ask again if nothing happens?"""
        room = lobby.keep_places(self)
        if not room:
            return KEPT_FOR
        try:
            asked = self._desk.throttling.ask(
                self.queue, self._throttler, room=room, owner=self._owner
            )
            if asked.ruling is None and asked.pause is not None:
                lobby.free_places(self)
                self._over.wait(asked.pause / 1e6)  # whatever happens
                return 0.0
            if asked.ruling is None:
                return self._until_due()
            return self._carry_out(asked.ruling, lobby)
        finally:
            lobby.free_places(self)

    def _carry_out(self, ruling: Ruling, lobby: Lobby) -> float:
        if not ruling.admitted:
            self._desk.throttling.carry_out(ruling)
        else:
            lobby.bring(ruling)
        crowded = len(ruling.admitted) == ruling.throttle.room
        return 0.0 if crowded or ruling.unfinished else LOOK_AGAIN / 1e6

    def _until_due(self) -> float:
        due_at = self._desk.dispatch.opening.next_due([self.queue])
        if due_at is None:
            return _LONGEST_SLEEP
        return min(_LONGEST_SLEEP, max(0.0, (due_at - self._desk.store.now()) / 1e6))


class Lobby:
    """Where doormen meet the ferry: places that are kept for them, and rulings to carry out."""

    def __init__(self, desk: Desk, free: Callable[[], int], wake_ferry: Callable[[], None]) -> None:
        self.doormen: list[Doorman] = []
        self._desk = desk
        self._free = free
        self._wake_ferry = wake_ferry
        self._lock = threading.Lock()
        self._kept: dict[Doorman, tuple[int, float]] = {}
        self._waiting: deque[Doorman] = deque()
        self._rulings: deque[tuple[Ruling, threading.Event]] = deque()

    # -- called by doormen -----------------------------------------------------------------

    def keep_places(self, doorman: Doorman) -> int:
        """Keep all places that are free; if none is, the doorman is woken with the next one."""
        with self._lock:
            if doorman not in self._waiting:
                self._waiting.append(doorman)  # first of all, so that no place is freed unseen
            places = self._free() - self._kept_now() + self._kept.get(doorman, (0, 0.0))[0]
            if places > 0:
                self._waiting.remove(doorman)
                self._kept[doorman] = (places, time.monotonic() + KEPT_FOR)
            return max(places, 0)

    def free_places(self, doorman: Doorman) -> None:
        """The doorman needs no places for now."""
        with self._lock:
            kept = self._kept.pop(doorman, None)
        if kept is not None:
            self._wake_ferry()

    def bring(self, ruling: Ruling) -> None:
        """Have the ferry bring in what is admitted, and wait for that."""
        done = threading.Event()
        self._rulings.append((ruling, done))
        self._wake_ferry()
        done.wait(_FERRY_TAKES)

    # -- called by the ferry ---------------------------------------------------------------

    @property
    def kept(self) -> int:
        """The places that are kept."""
        with self._lock:
            return self._kept_now() if self._kept else 0

    @property
    def pending(self) -> bool:
        """Are there rulings to carry out?"""
        return bool(self._rulings)

    def place_free(self) -> None:
        """A job has ended: the place is kept for a doorman who has waited for one."""
        if not self._waiting:
            return  # not by the lock: all runners pass here with every job
        with self._lock:
            if not self._waiting:
                return
            doorman = self._waiting.popleft()
            self._kept[doorman] = (1, time.monotonic() + KEPT_FOR)
        doorman.wake()

    def wake(self, queues: Container[str]) -> None:
        """Something has happened in these queues."""
        for doorman in self.doormen:
            if doorman.queue in queues:
                doorman.wake()

    def carry_out(self, session: int, *, accepting: bool) -> list[Job]:
        """Do what was ruled; returns the jobs that have started."""
        started: list[Job] = []
        while self._rulings:
            ruling, done = self._rulings.popleft()
            try:
                if accepting:
                    started += self._desk.throttling.carry_out(ruling, session=session)
                else:
                    self._desk.throttling.give_up(ruling)
            finally:
                done.set()
        return started

    def _kept_now(self) -> int:
        now = time.monotonic()
        return sum(places for places, until in self._kept.values() if until > now)
