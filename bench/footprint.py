"""What processes use of the machine, as the system counts it under /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")
_USER_TIME, _SYSTEM_TIME = 11, 12
"""Places in a process's stat behind its name."""


def is_told() -> bool:
    """Does this system count at all?"""
    return (_PROC / "self" / "io").exists()


def processor(pids: Iterable[int]) -> float:
    """Seconds of processor time that processes and all that came of them have used so far."""
    return sum(map(_processor, _families(pids)))


def written(pids: Iterable[int]) -> int:
    """Bytes that processes and all that came of them have sent to the disk so far."""
    return sum(map(_written, _families(pids)))


def _families(pids: Iterable[int]) -> list[int]:
    return [each for pid in pids for each in descendants(pid)]


def descendants(pid: int) -> list[int]:
    """A process and all that came of it."""
    children: dict[int, list[int]] = {}
    for stat in _PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(_after_name(stat)[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    family = [pid]
    for member in family:
        family.extend(children.get(member, []))
    return family


def _after_name(stat: Path) -> list[str]:
    # The name stands in brackets and may hold anything, brackets too.
    return stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _processor(pid: int) -> float:
    try:
        facts = _after_name(_PROC / str(pid) / "stat")
    except OSError:
        return 0.0  # it has ended
    return (int(facts[_USER_TIME]) + int(facts[_SYSTEM_TIME])) / os.sysconf("SC_CLK_TCK")


def _written(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "io").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return int(dict(line.split(": ") for line in lines)["write_bytes"])
