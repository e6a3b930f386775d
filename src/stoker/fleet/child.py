"""One worker process of a fleet: works until it is told to stop or its supervisor is gone."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import sys
import threading
from multiprocessing.connection import Connection
from types import FrameType

from stoker.fleet.load import load_app
from stoker.worker.worker import WorkerSettings

# Handlers that compute must not keep the ferry from the processor for Python's usual 5 ms.
_SWITCH_SECONDS = 0.001
_LOOK_SECONDS = 1.0


Log = tuple[int, str | None] | None
"""Level and format of the supervisor's log; None: it has none."""


def main(reference: str, settings: WorkerSettings, supervisor: Connection, log: Log = None) -> None:
    """Entry point of the process."""
    if log is not None:
        logging.basicConfig(level=log[0], format=log[1] or logging.BASIC_FORMAT)
    # A group of its own: Ctrl-C in a terminal reaches the supervisor, which tells us in time.
    os.setpgid(0, 0)
    sys.setswitchinterval(_SWITCH_SECONDS)
    stop = _StopSignals()
    app = load_app(reference)
    worker = app.worker(
        settings.queues,
        concurrency=settings.concurrency,
        ttl=settings.ttl,
        grace=settings.grace,
        name=settings.name,
        chores=settings.chores,
    )
    _tell(supervisor, worker.session)
    worker.tell_of_beats(lambda session: _tell(supervisor, session))
    worker.start()
    while not stop.wanted.wait(_LOOK_SECONDS) and not _orphaned(supervisor):
        pass
    worker.stop()
    app.close()


def _tell(supervisor: Connection, session: int) -> None:
    """Whom to beat for, and that it need not be now. Nobody waits for a supervisor that does not
    listen: it may be stopped."""
    with contextlib.suppress(OSError):  # it has died; the next look will show it
        if select.select([], [supervisor], [], 0)[1]:
            supervisor.send(session)


def _orphaned(supervisor: Connection) -> bool:
    try:
        return supervisor.poll() and supervisor.recv() is None
    except (EOFError, OSError):
        return True


class _StopSignals:
    """The first signal asks for a graceful end, the second ends the process at once."""

    def __init__(self) -> None:
        self.wanted = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._heard)

    def _heard(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.wanted.is_set():
            os._exit(128 + number)
        self.wanted.set()
