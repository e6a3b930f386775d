"""A process that stays inside a write transaction, right before its commit, until told to go on.

python -m tests.faults.dawdler <file>

It says `inside` when everything but the commit is done, and `done` when that is done too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.library import Connection

T = TypeVar("T")


def say(word: str) -> None:
    """One word to whoever watches."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


class Dawdler(SqliteStore):
    """Waits for a line of input before each commit."""

    def _write(self, act: Callable[[Connection], T]) -> T:
        def dawdle(connection: Connection) -> T:
            result = act(connection)
            say("inside")
            sys.stdin.readline()
            return result

        return super()._write(dawdle)


if __name__ == "__main__":
    Desk(Dawdler(sys.argv[1])).intake.enqueue_many([Job("theirs") for _ in range(3)])
    say("done")
