"""What the bench asks of an engine: places for jobs, bare loops, and word of what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from bench.loop import BATCH, Loop


class Place(Protocol):
    """Where one contestant keeps its jobs: a file, or a database of its own on the server."""

    @property
    def url(self) -> str:
        """What its processes are told."""

    def settle(self) -> None:
        """Pay what earlier work still owes, so that no turn pays for the one before it."""

    def weight(self) -> int:
        """Bytes that are in it."""


class Raw(NamedTuple):
    """The leanest honest loop with the bare driver, and the way it is used."""

    name: str
    open: Callable[[Place], Loop]
    drain: Callable[[Loop, int, int], None]
    batch: int = BATCH


class Idler(NamedTuple):
    """A worker without jobs."""

    place: Place
    pids: Sequence[int]


class Places(Protocol):
    """Where places are to be had."""

    def place(self, folder: Path) -> AbstractContextManager[Place]:
        """A new and empty place, gone with the block."""


class Engine(Places, Protocol):
    """A kind of database, up and running."""

    name: str
    """As on the command line."""
    title: str
    raws: tuple[Raw, ...]
    """Bare loops; the first is the one that targets are compared with."""
    keeps: bool
    """Do bare loops keep finished jobs? Beside peers Stoker does the same."""
    crowds: tuple[int, ...]
    """Worker processes of a drain."""
    asks: str
    """What idle workers are counted by, in a second."""
    weighs: str
    """What bytes are counted of."""

    def facts(self) -> list[str]:
        """Versions and settings, as the engine itself tells them."""

    def old_snapshot(self, place: Place) -> AbstractContextManager[None] | None:
        """Somebody who looks at a place as it is now, for as long as the block lasts, so that
        nothing is cleared away; None: the engine has nothing to clear away behind jobs."""

    def asked(self, idlers: Sequence[Idler], meanwhile: Callable[[], None]) -> list[int]:
        """How much each worker asked of the engine meanwhile."""
