"""One writer at a time, across processes: a file lock taken before every write transaction.

SQLite's own waiting is a poll that can starve a process completely; the kernel's lock queue is
fair. Checkpoints run inside a commit, hence also behind the gate.

An interrupt can come when one has entered and does not know it yet. Whoever minds calls `enter`
where `leave` follows in any case: that does no harm to those who are outside.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType

from stoker.errors import StoreLocked, StoreUnavailable

_ALL_LOCKS = Path("/proc/locks")


class Gate:
    """The lock file beside the database; nothing is ever written to it."""

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self.leave: Callable[[], None] = _nothing
        """Open it for others, if it is ours. Made without a line of Python to be interrupted in."""
        self._open()
        self.closed = False

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.leave = partial(fcntl.flock, self._file, fcntl.LOCK_UN)

    def enter(self) -> None:
        """Wait for one's turn; from then on everybody else waits."""
        if self.closed:
            raise StoreUnavailable(f"{self._path} was closed; open the store again")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._queue_up()

    def __enter__(self) -> None:
        self.enter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()

    def close(self) -> None:
        """Open the gate for others, if it is ours, and close its file."""
        self.closed = True
        self.leave()
        self.leave = _nothing  # its number may be another file's from now on
        os.close(self._file)

    def _queue_up(self) -> None:
        """Wait in the kernel's queue, but not for ever: flock itself knows no time limit."""
        turn = _Turn(self._file)
        try:
            if not turn.wait(self._timeout):
                raise StoreLocked(
                    f"{self._holder()} has held {self._path} for more than "
                    f"{self._timeout:g} s; is it stopped? Nothing was written; try again when it "
                    "goes on or has ended"
                )
        except BaseException:
            # The turn still stands in the queue with the file it has; we come back with another.
            self._open()
            turn.abandon()
            raise

    def _holder(self) -> str:
        """Who is inside, where the system tells."""
        file = os.fstat(self._file)
        place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
        with contextlib.suppress(OSError):
            for line in _ALL_LOCKS.read_text("ascii").splitlines():
                _, kind, _, _, process, where, *_ = line.split()
                if (kind, where) == ("FLOCK", place):
                    return f"process {process}"
        return "another process"


def _nothing() -> None:
    """There is no gate to be left."""


class _Turn:
    """A place in the lock's queue, kept by a thread so that its owner may walk away."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._state = threading.Lock()
        self._granted = threading.Event()
        self._abandoned = False
        threading.Thread(target=self._take, daemon=True).start()

    def wait(self, timeout: float) -> bool:
        return self._granted.wait(timeout)

    def abandon(self) -> None:
        """Nobody waits any more, be it that time was up or that an interrupt came."""
        with self._state:
            self._abandoned = True
            if self._granted.is_set():
                self._let_go()

    def _take(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        with self._state:
            if self._abandoned:
                self._let_go()
            else:
                self._granted.set()

    def _let_go(self) -> None:
        # Closing alone would not do: a forked child may have the same file open.
        fcntl.flock(self._file, fcntl.LOCK_UN)
        os.close(self._file)
