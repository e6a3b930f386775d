"""A process whose calls are interrupted at any moment, while others of its threads go on.

python -m tests.faults.interrupted <url> <seconds>

It tells how many calls it began, how many were interrupted, and the ids that were acknowledged.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
import time
from contextlib import suppress

from stoker.desk import Desk
from stoker.errors import StoreUnavailable
from stoker.kernel.job import Job
from stoker.store.open import open_store

LONGEST = 0.002
"""Seconds after which a call is interrupted, if it takes so long."""


class Interrupt(BaseException):
    """As Ctrl-C would raise it."""


class Alarm:
    """Interrupts the main thread while it is on. A signal that another thread took up may reach it
    late, when nobody is prepared for it any more; that one counts for nothing."""

    def __init__(self) -> None:
        self._on = False
        signal.signal(signal.SIGALRM, self._ring)

    def _ring(self, *_: object) -> None:
        if self._on:
            raise Interrupt

    def set(self, seconds: float) -> None:
        """Ring after so long."""
        self._on = True
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def off(self) -> None:
        """Ring no more."""
        self._on = False
        signal.setitimer(signal.ITIMER_REAL, 0)


class Enqueuing(threading.Thread):
    """Goes on all the while."""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk
        self.over = False
        self.done: list[int] = []

    def run(self) -> None:
        while not self.over:
            # What an interrupted call has committed along with its own is not known.
            with suppress(StoreUnavailable):
                self.done.append(self._desk.intake.enqueue(Job("q")).id)


def main(url: str, seconds: float) -> None:
    desk, dice = Desk(open_store(url)), random.Random(1)
    others = [Enqueuing(desk) for _ in range(2)]
    alarm = Alarm()
    calls = interrupts = 0
    done: list[int] = []
    for other in others:
        other.start()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        calls += 1
        try:
            try:
                alarm.set(dice.uniform(1e-5, LONGEST))
                done.append(desk.intake.enqueue(Job("q")).id)
                desk.store.survey(["q"])
            finally:
                alarm.off()
        except Interrupt:
            interrupts += 1
    for other in others:
        other.over = True
    for other in others:
        other.join()
    done.append(desk.intake.enqueue(Job("q")).id)
    ids = sorted([*done, *(job for other in others for job in other.done)])
    sys.stdout.write(json.dumps({"calls": calls, "interrupts": interrupts, "ids": ids}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
