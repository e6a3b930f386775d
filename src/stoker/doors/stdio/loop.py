"""The loop: sleeping, seeing to what came, ending.

It sleeps until a line comes, somebody rings for a queue, or a tick is over. Ticks it counts by
itself: nothing depends on those that come as messages.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from stoker.desk import Desk
from stoker.doors.stdio.inbox import Inbox
from stoker.doors.stdio.processor import Processor
from stoker.doors.stdio.settings import Settings
from stoker.errors import (
    StokerError,
    StoreCorrupt,
    StoreError,
    StoreReadOnly,
    StoreTooNew,
    StoreUnfit,
)
from stoker.store import Store
from stoker.store.patient import patient
from stoker.watch import give_up_turn
from stoker.watch.rounds import Rounds

logger = logging.getLogger("stoker.stdio")

DONE, UNHEARD, STORE_TROUBLE = 0, 1, 4
_PAUSES = (0.1, 0.3, 1.0, 3.0, 5.0)
_MOST_FAILURES = 15
"""So often the store is asked, for about a minute, when it cannot be opened or nothing more is to
come."""
_HOPELESS = (StoreUnfit, StoreCorrupt, StoreReadOnly, StoreTooNew)
"""What no waiting mends in a store that is to be opened."""


class Unheard(Exception):
    """Nobody reads what we write."""


def run(settings: Settings, open_store: Callable[[], Store], source: int, sink: int) -> int:
    """Serve until the source ends or a signal comes; gives the exit code."""
    try:
        store = _opened(open_store)
    except StoreError as error:
        logger.critical("the store cannot be opened, and nothing was read: %s", error)
        return STORE_TROUBLE
    try:
        Loop(store, settings, source, sink).run()
    except Unheard:
        return UNHEARD
    except StoreError as error:
        logger.critical("the store stays in trouble, and not all was seen to: %s", error)
        return STORE_TROUBLE
    return DONE


def _opened(open_store: Callable[[], Store]) -> Store:
    for failures in count(1):
        try:
            return open_store()
        except _HOPELESS:
            raise
        except StoreError as error:
            if failures >= _MOST_FAILURES:
                raise
            _wait(error, failures)
    raise AssertionError("unreachable")


def _wait(error: StoreError, failures: int) -> None:
    pause = _PAUSES[min(failures, len(_PAUSES)) - 1]
    logger.error("the store is in trouble, trying again in %g s: %s", pause, error)
    time.sleep(pause)


class Loop:
    """Serves one pair of streams."""

    def __init__(self, store: Store, settings: Settings, source: int, sink: int) -> None:
        self._ear = store.bell.listen()
        self._inbox = Inbox(source, self._ear.interrupt)
        self._sink = sink
        self._desk = Desk(patient(store, self._pause))
        self._processor = Processor(self._desk, settings, self._write)
        self._owner = f"stdio {settings.uuid} {secrets.token_hex(4)}"
        self._rounds = Rounds(self._desk.clerk, self._owner, every=settings.tick)
        self._tick_seconds = settings.tick / 1e6
        self._next_tick = time.monotonic()

    def run(self) -> None:
        """See to everything until there is no more to come."""
        with _signals(self._inbox.stop):
            try:
                while not self._inbox.drained:
                    self._turn()
                self._give_up_turn()
            finally:
                self._inbox.close()
                self._ear.close()

    def _turn(self) -> None:
        lines = self._inbox.take()
        if lines:
            self._handle(lines)
        left = self._next_tick - time.monotonic()
        heard = self._ear.wait(0 if lines or self._inbox.drained else max(left, 0.0))
        if heard:
            self._processor.ring(heard)
        if time.monotonic() >= self._next_tick:
            self._next_tick = time.monotonic() + self._tick_seconds
            self._processor.tick()
            self._rounds.make()

    def _handle(self, lines: list[bytes]) -> None:
        try:
            self._processor.handle(lines)
        except (Unheard, StoreError):
            raise
        except Exception:
            # Whatever it is, the others are not to suffer; and doing a thing twice does no harm.
            logger.exception("something went wrong with %d lines", len(lines))
            for line in lines if len(lines) > 1 else ():
                self._handle([line])

    def _write(self, text: bytes) -> None:
        left = memoryview(text)
        try:
            while left:
                left = left[os.write(self._sink, left) :]
        except OSError as error:
            raise Unheard from error

    def _pause(self, error: StoreError, failures: int) -> None:
        if failures >= _MOST_FAILURES and self._inbox.ended:
            raise error
        _wait(error, failures)

    def _give_up_turn(self) -> None:
        try:
            give_up_turn(self._desk.clerk, self._owner)
        except StokerError as error:
            logger.warning("the turn at the chores could not be given up: %s", error)


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """The first SIGTERM or SIGINT stops, the second does what it always does."""
    usual: dict[int, signal.Handlers | Callable[..., object] | int | None] = {}

    def put_back() -> None:
        for number, handler in usual.items():
            signal.signal(number, handler)

    def hear(*_: object) -> None:
        put_back()
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        usual[number] = signal.signal(number, hear)
    try:
        yield
    finally:
        put_back()
