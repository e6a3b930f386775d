"""What every job loop can do, and the two ways of using it that are measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

BATCH = 100


class Loop(Protocol):
    """Jobs in and out, without workers and handlers around it."""

    def fill(self, count: int) -> None:
        """Insert jobs, a thousand a commit."""

    def claim(self, batch: int) -> Sequence[Any]:
        """Take the foremost jobs, in a commit of its own."""

    def finish(self, held: Sequence[Any]) -> None:
        """End the jobs held, in a commit of its own."""

    def swap(self, held: Sequence[Any], batch: int) -> Sequence[Any]:
        """End the jobs held and take the next ones, in one commit."""

    def unfinished(self) -> int:
        """How many jobs have not ended."""

    def close(self) -> None:
        """Let go of the store."""


class FileLoop(Loop, Protocol):
    """A loop on a file of its own."""

    path: Path


def apart(loop: Loop, count: int, batch: int = BATCH) -> None:
    """Two commits a batch."""
    for _ in range(count // batch):
        loop.finish(loop.claim(batch))


def together(loop: Loop, count: int, batch: int = BATCH) -> None:
    """One commit a batch: what is done goes out with the next claim."""
    held = loop.claim(batch)
    for _ in range(count // batch - 1):
        held = loop.swap(held, batch)
    loop.finish(held)
