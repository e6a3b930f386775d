"""What a contestant is: Stoker itself, and peers with what a reader must know about each."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import bench
import stoker

_ROOT = Path(bench.__file__).parent.parent
_DRIVERS = Path(__file__).parent / "drivers"

SHORTEST = 0.001
"""Seconds between two looks of those that may look as often as they like."""


class Fleet(Enum):
    """How a contestant comes to several worker processes."""

    OWN = "by its own means"
    COPIES = "by starting its worker several times"
    ALONE = "not at all"


class Contestant(NamedTuple):
    """One that is ready to run."""

    name: str
    command: tuple[str, ...]
    """What starts its driver."""
    environment: Mapping[str, str]
    fleet: Fleet = Fleet.OWN
    has_bulk: bool = True
    looks: tuple[float | None, ...] = (None,)
    """Seconds between two looks into an empty queue, to be measured; None: as it comes."""
    interval: float = 0.0
    """What None means."""
    is_ours: bool = False
    """Then it must not fail, and each of its jobs must end."""
    waits: bool = True
    """Is it measured while it waits, too?"""


class Peer(NamedTuple):
    """Another job queue, by what its packages and its documentation say."""

    name: str
    pins: tuple[str, ...]
    driver: str
    delivery: str
    worker: str
    """What its jobs are run by, and how it is set up."""
    durability: str = "the server's"
    fleet: Fleet = Fleet.COPIES
    at_least_once: bool = True
    has_bulk: bool = True
    looks: tuple[float | None, ...] = (None,)
    interval: float = 0.0

    @property
    def on_node(self) -> bool:
        """Does it run on Node, not on Python?"""
        return self.driver.endswith(".mjs")

    @property
    def packages(self) -> str:
        """Its packages and their versions, as people write them."""
        return ", ".join(self.pins).replace("==", " ").replace("@", " ")

    def home(self, shelf: Path) -> Path:
        """Where it is installed; another version has another home."""
        # Plain letters only: dramatiq, for one, takes its own path for a pattern.
        return shelf / re.sub(r"[^\w.]+", "-", self.packages)

    def contestant(self, shelf: Path) -> Contestant:
        """The peer as installed."""
        home, environment = self.home(shelf), dict(os.environ)
        if self.on_node:
            command: tuple[str, ...] = (shutil.which("node") or "node", str(_DRIVERS / self.driver))
            environment["STOKER_BENCH_MODULES"] = str(home)
        else:
            command = (str(home / "bin" / "python"), "-m", f"bench.peers.drivers.{self.driver}")
            environment["PYTHONPATH"] = str(_ROOT)
        rest = (self.fleet, self.has_bulk, self.looks, self.interval)
        return Contestant(self.name, command, environment, *rest)


def ours(kind: str, keys: int = 0, *, forgets: bool = False) -> Contestant:
    """Stoker with handlers of a kind, `async` or `sync`, and jobs of so many keys by turns. It
    keeps finished jobs as it comes, for an hour, or forgets them at once."""
    places = (str(_ROOT), str(Path(stoker.__file__).parent.parent))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(places),
        "STOKER_BENCH_TASK": kind,
        "STOKER_BENCH_KEYS": str(keys),
        "STOKER_BENCH_FORGETS": str(int(forgets)),
    }
    command = (sys.executable, "-m", "bench.peers.drivers.ours")
    return Contestant(f"Stoker, {kind}", command, environment, is_ours=True)


OURS = ("Stoker, async", "Stoker, sync")
"""Those that targets are about."""
