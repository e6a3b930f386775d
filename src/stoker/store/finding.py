"""What an engine says when it is asked how it is.

Checking is optional: an engine that has nothing to lose needs no `check`.
"""

from __future__ import annotations

import enum
from typing import Protocol, runtime_checkable

import msgspec


class Level(enum.Enum):
    """How much a finding matters."""

    FINE = "fine"
    WARNING = "warning"
    """It works, but somebody should look after it."""
    PROBLEM = "problem"
    """What is stored cannot be trusted, or not be written."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at, and what was seen."""

    subject: str
    text: str
    level: Level = Level.FINE


def size(amount: float) -> str:
    """So many bytes, for people."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.4g} {unit}"
        amount /= 1024
    return f"{amount:.4g} TiB"


@runtime_checkable
class Checkable(Protocol):
    """A store that can be asked how it is."""

    migrated: tuple[int, int]
    """The schema that was found when the store was opened, and the one it has now."""

    def check(self) -> list[Finding]:
        """Look at everything that can go wrong underneath. May read all that is stored."""
