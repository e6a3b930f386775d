"""The worker's heart: says that it lives, hears what is to stop, and watches the clock.

With the same beat it hears whether there are chores to do, so that nobody has to ask for that.

A session whose beats fail, or are not answered, for too long is taken for dead by everybody else,
so it is by us: the handlers are asked to end before their jobs can run a second time elsewhere.
Whoever judges that never asks the store anything, lest it wait for the answer itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from stoker.desk import Desk
from stoker.errors import StokerError, StoreError
from stoker.worker.beaters import Beaters
from stoker.worker.context import StopReason
from stoker.worker.crews import Assignment
from stoker.worker.introduction import Introduction

logger = logging.getLogger("stoker.worker")

_WATCH_SECONDS = 0.25
_LONGEST_PAUSE = 2.0
"""Between two beats, however long a session lasts: schedules tick with the chores."""
_SURE_SHARE = 0.9
"""Of its ttl a session is ours for sure after a beat; the rest is for the handlers to end in."""


def pause_between_beats(ttl: float) -> float:
    """How often a heart beats whose session would last so long without; both in seconds."""
    return min(ttl / 4, _LONGEST_PAUSE)


class Heart:
    """Judges in a thread of its own, and has others beat."""

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
        self._opening = threading.Lock()
        self._telling = threading.Lock()
        self._beaters = Beaters(self._beat)
        self._given_up: int | None = None
        self._beaten = time.monotonic()
        """When the last beat began that was answered: so long ago, at most, the store heard it."""
        self.session = introduction.open(ttl=ttl)
        self._watch = _Watch(ttl / 1e6)

    def look(self) -> None:
        """Somebody rang for us: beat now, and hear what is to be cancelled."""
        self._hurry.set()

    def stop(self) -> None:
        """Stop beating and end the session."""
        self._stopping = True
        self._hurry.set()

    def run(self) -> None:
        """Have beats made until stopped; meanwhile look for jobs whose lease or time is over."""
        beat_every = pause_between_beats(self._ttl / 1e6)
        next_beat = 0.0
        while not self._stopping:
            now = time.monotonic()
            if now >= next_beat:
                self._hurry.clear()
                self._beaters.call(in_company=True)
                next_beat = now + beat_every
            elif self._hurry.is_set():
                self._hurry.clear()
                self._beaters.call()
            self._judge()
            self._hurry.wait(self._watch.look_every)
        self._beaters.close()

    # -- beating ---------------------------------------------------------------------------

    def _beat(self) -> None:
        session, began = self.session, time.monotonic()
        try:
            if session == self._given_up:
                self.living_session()
                return
            watch = self._on_trouble is not None
            beat = self._desk.dispatch.beat(session, ttl=self._ttl, watch=watch)
        except Exception as error:  # noqa: BLE001 - a heart that stops kills more than one job
            logger.warning("the heartbeat did not get through: %s", error)
            return
        if not beat.alive:
            self.lose(session)
            return
        if session != self.session or session == self._given_up:
            return  # too late: its handlers have been told to end
        self._beaten = max(self._beaten, began)
        if self.on_beat is not None:
            with self._telling:
                self.on_beat(session)
        if beat.troubled and self._on_trouble is not None:
            self._on_trouble()
        cancelled = set(beat.cancelled)
        for assignment in self._in_hand():
            if assignment.context.job.id in cancelled:
                self._end(assignment, StopReason.CANCELLED)
        self._refresh_introduction(session)

    def _refresh_introduction(self, session: int) -> None:
        try:
            self._introduction.refresh(session, ttl=self._ttl)
        except StokerError as error:
            logger.warning("what this worker knows could not be told: %s", error)

    def lose(self, lost: int) -> None:
        """We were taken for dead: what we hold is no longer ours. Begin again as somebody new."""
        self._give_up(lost)
        try:
            self.living_session()
        except StoreError as error:
            logger.warning("cannot open a new session yet: %s", error)

    def living_session(self) -> int:
        """The session to work under: a new one if the last was given up."""
        session = self.session
        if session != self._given_up:
            return session
        with self._opening:
            if self.session == self._given_up:
                began = time.monotonic()
                session = self._introduction.open(ttl=self._ttl)
                self._beaten = began
                self.session = session
                self._hurry.set()  # so that whoever is told of beats knows it at once
            return self.session

    # -- judging ---------------------------------------------------------------------------

    def _give_up(self, lost: int) -> None:
        if lost == self.session and lost != self._given_up:
            self._given_up = lost
            logger.warning("this worker's session %d is over; its jobs will run elsewhere", lost)
        self._end_what_is_lost()

    def _judge(self) -> None:
        session = self.session
        if self._watch.is_over(self._beaten) and session == self.session:
            self._give_up(session)
        else:
            self._end_what_is_lost()  # what a trip has brought that was under way meanwhile
        now = self._desk.store.now()
        for assignment in self._in_hand():
            until = assignment.context.job.until
            if until is not None and until <= now:
                self._end(assignment, StopReason.TIMEOUT)

    def _end_what_is_lost(self) -> None:
        given_up, session = self._given_up, self.session
        if given_up is None:
            return
        for assignment in self._in_hand():
            holder = assignment.context.job.session
            if holder is not None and (holder != session or holder == given_up):
                self._end(assignment, StopReason.LOST)


class _Watch:
    """Tells by our own clock when a session is over for which no beat was answered.

    Time in which this process did not run counts as well, for others could take its jobs; but the
    supervisor may have beaten for it. So there is time for two beats first, in which it does run.
    """

    def __init__(self, ttl: float) -> None:
        self.look_every = min(_WATCH_SECONDS, ttl / 20)
        self._sure = ttl * _SURE_SHARE
        self._enough = 2 * pause_between_beats(ttl)
        self._awake = 0.0
        self._beaten = self._looked = time.monotonic()

    def is_over(self, beaten: float) -> bool:
        """Is it, if the last beat that was answered began at that time? To be asked often."""
        now = time.monotonic()
        if beaten != self._beaten:
            self._beaten, self._awake = beaten, 0.0
        else:
            self._awake += min(now - self._looked, 2 * self.look_every)
        self._looked = now
        return now - beaten > self._sure and self._awake > self._enough
