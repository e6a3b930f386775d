"""Other processes that use the same file: each runs a few lines of Python and speaks in lines."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent
from types import TracebackType
from typing import Self

PREPARATIONS = """
import sys
from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.store.sqlite import SqliteStore

def say(word):
    print(word, flush=True)

def wait_for_a_word():
    return sys.stdin.readline().strip()
"""


class Process:
    """A process of its own. Its code finds Stoker's names, `say`, and its arguments in sys.argv."""

    def __init__(self, code: str, *arguments: object) -> None:
        path = os.pathsep.join(folder for folder in sys.path if folder)
        self._process = subprocess.Popen(
            [sys.executable, "-c", PREPARATIONS + dedent(code), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, word: str) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """The next line it says; empty if it has ended without a word."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        """End it on the spot, as a crash would."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
