"""The settings of queues: read, changed and written back by one at a time.

Settings are written as a whole, and on a Cluster in one partition after the other, so whoever
changes some of them keeps a lock in the store meanwhile. It lapses by itself, since its holder may
die.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from stoker.desk.clerk import Clerk
from stoker.errors import BadInput, Contended, StoreError
from stoker.kernel.change import Change
from stoker.kernel.facts import check_name
from stoker.kernel.queue import QueueSettings

_LOCK = "settings"
_LOCK_FOR = 10_000_000
_PATIENCE_SECONDS = 20.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1

SettingsRule = Callable[[QueueSettings], QueueSettings]
"""From the settings that a queue has to those that it is to have."""


class Settings:
    """Changes the settings of queues, which are then in force at once and for everybody."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk
        self._name = secrets.token_hex(8)

    def change(self, queue: str, rule: SettingsRule) -> QueueSettings:
        """Give a queue other settings, while nobody else can; returns them."""
        with self.alone():
            return self.change_alone(queue, rule)

    def change_alone(self, queue: str, rule: SettingsRule) -> QueueSettings:
        """The same for who is `alone` already."""
        check_name("queue", queue)
        settings = rule(self.of(queue))
        if settings.within is not None:
            self._check_outer(queue, settings.within)
        self._clerk.transact([Change(queues=((queue, settings),))])
        self._clerk.forget_settings(queue)
        return settings

    def of(self, queue: str) -> QueueSettings:
        """The settings of a queue as they are at this moment."""
        self._clerk.forget_settings(queue)
        return self._clerk.settings(queue)

    def _check_outer(self, queue: str, outer: str) -> None:
        """Queues are within others one deep, so that a claim has two entrances to pass at most."""
        if outer == queue:
            raise BadInput(f"the queue {queue!r} cannot be within itself; name another one")
        around = {view.name: view.settings.within for view in self._clerk.store.survey()}
        if around.get(outer) is not None:
            raise BadInput(
                f"{outer!r} is within {around[outer]!r} itself, and only one level counts; put "
                f"{queue!r} within {around[outer]!r}"
            )
        inner = [name for name, within in around.items() if within == queue]
        if inner:
            raise BadInput(
                f"{inner[0]!r} is within {queue!r}, and only one level counts; put {inner[0]!r} "
                f"within {outer!r} first"
            )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else changes the settings of any queue in the meantime."""
        # The same for a thread each time: who was not told that he has the lock can take it again.
        owner = f"{self._name} {os.getpid()} {threading.get_ident()}"
        self._wait_for_lock(owner)
        try:
            yield
        finally:
            with suppress(StoreError):  # it lapses
                self._clerk.store.hold(_LOCK, owner, 0)

    def _wait_for_lock(self, owner: str) -> None:
        give_up_at, pause = time.monotonic() + _PATIENCE_SECONDS, _FIRST_PAUSE
        while not self._clerk.store.hold(_LOCK, owner, _LOCK_FOR):
            if time.monotonic() > give_up_at:
                raise Contended("somebody else keeps changing the settings of queues; try again")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
