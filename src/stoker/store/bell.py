"""Wake-ups: a hint that a queue may have work. The poll is the truth; a lost ring costs only time.

A ring is a queue's name, `!<session>` for a worker that is to look at its cancel requests,
`+<session>` for one for which a job was started, or `~<news>`, something that peers tell each
other.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from stoker.kernel.job import Job
from stoker.store.rings import errand_ring


class Listener(Protocol):
    """One waiter's ear. Rings that came since the last wait are never missed."""

    @property
    def address(self) -> str | None:
        """Where jobs can be sent that were started for whoever listens here; None: nowhere. After
        a pause in which nothing was heard it is another one."""

    def wait(self, timeout: float) -> set[str]:
        """Wait up to `timeout` seconds for rings; an empty set means none came."""

    def brought(self) -> list[Job]:
        """Jobs that came along with rings that the last wait heard, for whomever they are."""

    def interrupt(self) -> None:
        """Let the wait that goes on in another thread, or else the next one, end at once."""

    def close(self) -> None:
        """Stop listening."""


class Nudge:
    """Something to wait for beside a socket: readable from a push until it is taken back."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)

    def fileno(self) -> int:
        """For `select` and its kin."""
        return self._ours.fileno()

    def push(self) -> None:
        """Wake whoever waits."""
        with contextlib.suppress(OSError):  # full: it was pushed before; closed: nobody waits
            self._theirs.send(b".")

    def take_back(self) -> None:
        """Be as if it had not been pushed."""
        with contextlib.suppress(BlockingIOError):
            while self._ours.recv(4096):
                pass

    def close(self) -> None:
        """Let go of it."""
        self._ours.close()
        self._theirs.close()


class Bell(Protocol):
    """What a store offers for wake-ups."""

    def ring(self, names: Iterable[str]) -> None:
        """Wake the listeners. Never blocks and never fails."""

    def listen(self) -> Listener:
        """Begin to listen; rings from this moment on are heard."""


class LocalListener:
    """Hears rings of its own process."""

    def __init__(self, bell: LocalBell) -> None:
        self._bell = bell
        self._rung: set[str] = set()
        self._coming: list[Job] = []
        self._brought: list[Job] = []
        self._interrupted = False
        # Entered by itself: an interrupt may stop a condition's own `with` between its steps.
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)

    @property
    def address(self) -> str | None:
        return self._bell.address()

    def rouse(self, names: Iterable[str], errand: Job | None = None) -> None:
        with self._lock:
            self._rung.update(names)
            if errand is not None:
                self._coming.append(errand)
            self._news.notify()

    def wait(self, timeout: float) -> set[str]:
        with self._lock:
            if not self._rung and not self._interrupted:
                self._news.wait(timeout)
            heard, self._rung, self._interrupted = self._rung, set(), False
            self._brought, self._coming = self._coming, []
            return heard

    def brought(self) -> list[Job]:
        return self._brought

    def interrupt(self) -> None:
        with self._lock:
            self._interrupted = True
            self._news.notify()

    def close(self) -> None:
        self._bell.forget(self)


class LocalBell:
    """Rings within one process."""

    def __init__(self, address: Callable[[], str | None] = lambda: "") -> None:
        self.address = address
        self._listeners: tuple[LocalListener, ...] = ()
        self._lock = threading.Lock()

    def ring(self, names: Iterable[str]) -> None:
        for listener in self._listeners:
            listener.rouse(names)

    def bring(self, errand: Job) -> None:
        """Ring for whom a job was started, and send it along."""
        assert errand.session is not None
        for listener in self._listeners:
            listener.rouse([errand_ring(errand.session)], errand)

    def listen(self) -> LocalListener:
        listener = LocalListener(self)
        with self._lock:
            self._listeners = (*self._listeners, listener)
        return listener

    def forget(self, listener: LocalListener) -> None:
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other is not listener)
