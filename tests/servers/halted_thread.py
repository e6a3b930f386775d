"""One thread of a server that is halted while the others go on, as if its disk took for ever."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_ATTACH, _DETACH = 16, 17
_WALL = 0x40000000  # threads of others, too
_LIBRARY = ctypes.CDLL(None, use_errno=True)


def _trace(what: int, thread: int) -> None:
    if _LIBRARY.ptrace(what, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def _named(pid: int, name: str) -> int:
    threads = Path(f"/proc/{pid}/task").iterdir()
    (found,) = [each for each in threads if (each / "comm").read_text().strip() == name]
    return int(found.name)


@contextmanager
def halted(pid: int, name: str) -> Iterator[None]:
    """Halt a thread of a process that this one has started. If the process is killed meanwhile,
    nobody else can see it die before this ends."""
    thread = _named(pid, name)
    _trace(_ATTACH, thread)
    os.waitpid(thread, _WALL)
    try:
        yield
    finally:
        try:
            _trace(_DETACH, thread)
        except OSError:  # it was killed
            with suppress(ChildProcessError):
                os.waitpid(thread, _WALL)
