"""Who takes part: Stoker itself, and peers with what a reader must know about each."""

from __future__ import annotations

import os
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
_SHORTEST = 0.001


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


class Peer(NamedTuple):
    """Another job queue, by what its packages and its documentation say."""

    name: str
    pins: tuple[str, ...]
    driver: str
    sync: str
    delivery: str
    worker: str
    fleet: Fleet
    at_least_once: bool = True
    has_bulk: bool = True
    looks: tuple[float | None, ...] = (None, _SHORTEST)
    interval: float = 0.0

    @property
    def on_node(self) -> bool:
        """Does it run on Node, not on Python?"""
        return self.driver.endswith(".mjs")

    def home(self, shelf: Path) -> Path:
        """Where it is installed; another version has another home."""
        return shelf / "-".join(self.pins).replace("==", "-").replace("@", "-")

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


PEERS = (
    Peer(
        name="huey",
        pins=("huey==3.5.4",),
        driver="huey",
        sync="FULL (fsync=True)",
        delivery="at most once: a job is deleted before it runs",
        worker="its consumer, process workers",
        fleet=Fleet.OWN,
        at_least_once=False,
        has_bulk=False,
        interval=0.1,
    ),
    Peer(
        name="litequeue",
        pins=("litequeue==0.9",),
        driver="litequeue",
        sync="FULL, set on its connection; it comes with NORMAL",
        delivery="at least once, if the user frees old locks",
        worker="none of its own: a loop over pop and done",
        fleet=Fleet.COPIES,
        looks=(_SHORTEST,),
    ),
    Peer(
        name="persist-queue",
        pins=("persist-queue==1.1.0",),
        driver="persistqueue",
        sync="FULL",
        delivery="at least once, after a restart",
        worker="none of its own: a loop over SQLiteAckQueue's get and ack, in one process only",
        fleet=Fleet.ALONE,
        has_bulk=False,
        looks=(_SHORTEST,),
    ),
    Peer(
        name="taskito",
        pins=("taskito==0.22.0",),
        driver="taskito",
        sync="NORMAL: it cannot be told otherwise",
        delivery="at least once",
        worker="its worker with threads, scheduler_batch_size=100, push_dispatch=True",
        fleet=Fleet.COPIES,
        interval=0.05,
    ),
    Peer(
        name="plainjob",
        pins=("plainjob@0.0.14", "better-sqlite3@12.11.1"),
        driver="plainjob.mjs",
        sync="FULL, set on its connection; it comes with NORMAL",
        delivery="at least once, half an hour later",
        worker="its worker on Node",
        fleet=Fleet.COPIES,
        interval=1.0,
    ),
)


def ours(kind: str) -> Contestant:
    """Stoker with handlers of a kind, `async` or `sync`."""
    places = (str(_ROOT), str(Path(stoker.__file__).parent.parent))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(places),
        "STOKER_BENCH_TASK": kind,
    }
    command = (sys.executable, "-m", "bench.peers.drivers.ours")
    return Contestant(f"Stoker, {kind}", command, environment)


OURS = ("Stoker, async", "Stoker, sync")
