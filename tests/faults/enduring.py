"""A worker in a process of its own, as a program would have it, that notes what it has run.

python -m tests.faults.enduring <store URL>
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from stoker import Stoker


def note(number: int, journal: str) -> None:
    """The task, known to those who enqueue and to those who work."""
    with Path(journal).open("a", encoding="utf-8") as lines:
        lines.write(f"{number} {os.getpid()}\n")


def noted(journal: Path) -> list[tuple[int, int]]:
    """What was run and in which process, in that order."""
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    return [(int(number), int(pid)) for number, pid in map(str.split, lines)]


def main(url: str) -> None:
    """Work until told to leave."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    app = Stoker(url)
    app.task(note)
    worker = app.worker(concurrency=4)
    worker.start()
    signal.sigwait([signal.SIGTERM])
    worker.stop()
    app.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
