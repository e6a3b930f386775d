"""The ear: hears what other processes ring, in a thread of its own."""

from __future__ import annotations

import logging
import select
import threading
import time
from collections.abc import Callable
from contextlib import closing

from stoker.store.bell import Nudge
from stoker.store.postgres.driver import Connection
from stoker.store.postgres.line import TEXT, Question, ask, heard
from stoker.store.postgres.patrol import under_way
from stoker.store.postgres.pool import sever

logger = logging.getLogger("stoker.store")

_LIVES = b"SELECT pg_try_advisory_lock(hashtextextended($1, 0))"
_TRIAL_SECONDS = 2.0
_LOOK_SECONDS = 1.0
_QUIET_SECONDS = 30.0
"""After so long the server is asked for a sign of life: else nobody would hear that none comes."""
_SIGN_OF_LIFE = Question(b"SELECT true", (), ())
_TROUBLE_PAUSES = (0.1, 0.5, 2.0, 5.0)


class Ear:
    """Waits on a connection of its own, which it makes again when it is lost.

    After `LISTEN` it asks for a trial; `hear` says of each message whether it was that. As long as
    no trial came through, or if there is no connection to be had, it looks instead.

    The second of the channels is its own. As long as it hears it holds a lock on that name, so that
    others see whether it lives.
    """

    def __init__(
        self,
        connect: Callable[[], Connection] | None,
        channels: Callable[[], tuple[str, str]],
        *,
        ask_for_trial: Callable[[], None],
        hear: Callable[[str, str], bool],
        look: Callable[[], None],
    ) -> None:
        self._connect = connect
        self._channels = channels
        self._ask_for_trial = ask_for_trial
        self._hear = hear
        self._look = look
        self._connection: Connection | None = None
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._listening = threading.Event()
        self.tried = threading.Event()
        """The trial is over, one way or the other."""
        self._nudge: Nudge | None = None
        self._over = False
        self.hears = False
        """Has a trial come through?"""

    def forked(self) -> None:
        """Begin anew: the thread was not carried over, and the connection stays the parent's."""
        self._begin()
        if self._connection is not None:
            sever(self._connection)
            self._connection = None

    def open(self) -> None:
        """Begin to hear; returns when nothing is missed any more, or when that takes too long."""
        with self._lock:
            if self._thread is None and not self._over:
                self._nudge = Nudge()
                self._thread = threading.Thread(target=self._run, name="stoker-ear", daemon=True)
                self._thread.start()
        self._listening.wait(_TRIAL_SECONDS)

    def close(self) -> None:
        """Hear no more."""
        with self._lock:
            self._over = True
        if self._thread is not None and self._nudge is not None:
            self._nudge.push()
            self._thread.join(timeout=10)
            self._nudge.close()

    def _run(self) -> None:
        troubles = 0
        while not self._over:
            try:
                if self._connect is None:
                    self._only_look()
                else:
                    with closing(self._connect()) as self._connection:
                        troubles = 0
                        self._listen(self._connection)
            except Exception as error:  # noqa: BLE001 - the poll is the truth, this is a help
                logger.debug("rings of other processes are not heard: %s", error)
                self._listening.set()
                self.tried.set()
                self.hears = False
                self._pause(_TROUBLE_PAUSES[min(troubles, len(_TROUBLE_PAUSES) - 1)])
                troubles += 1

    def _listen(self, connection: Connection) -> None:
        common, own = self._channels()
        with under_way(connection):
            for channel in (common, own):
                connection.execute(f'LISTEN "{channel}"')
        self._listening.set()
        self._ask_for_trial()
        patience = time.monotonic() + _TRIAL_SECONDS
        while not self._over:
            quiet = not self._wait(connection, _QUIET_SECONDS if self.hears else _LOOK_SECONDS)
            if quiet and self.hears:
                with under_way(connection):
                    ask(connection, _SIGN_OF_LIFE)
            while news := heard(connection):
                passed = [self._hear(channel, said) for channel, said in news]
                if any(passed) and not self.hears:
                    # Past the driver, which would swallow what is rung meanwhile.
                    with under_way(connection):
                        ask(connection, Question(_LIVES, [own.encode()], [TEXT]))
                    self.hears = True
            if self.hears or time.monotonic() >= patience:
                self.tried.set()
            if not self.hears and self.tried.is_set():
                self._look()

    def _wait(self, connection: Connection | None, seconds: float) -> bool:
        """Until something comes; did anything, in this time?"""
        assert self._nudge is not None
        news = select.poll()
        news.register(self._nudge, select.POLLIN)
        if connection is not None:
            news.register(connection.fileno(), select.POLLIN)
        return bool(news.poll(seconds * 1000))

    def _only_look(self) -> None:
        self._listening.set()
        while not self._over:
            self._wait(None, _LOOK_SECONDS)
            self._look()

    def _pause(self, seconds: float) -> None:
        if not self._over:
            self._wait(None, seconds)
