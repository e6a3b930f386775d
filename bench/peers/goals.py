"""What we want to reach on an engine, as values."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bench.peers.cast import Peer


class Rival(NamedTuple):
    """A peer, or the fastest of some, and how many times its speed we want to drain at."""

    name: str
    times: float
    is_one: Callable[[Peer], bool]


def peer_called(name: str, times: float) -> Rival:
    """One peer and no other."""
    return Rival(name, times, lambda peer: peer.name == name)


class Goals(NamedTuple):
    """Shares of others' speed, and limits; None: not aimed at.

    On every engine we want to begin jobs sooner than any peer.
    """

    drain_of_raw: float
    rivals: tuple[Rival, ...]
    bulk_of_raw: float | None = None
    bulk_of_peers: float | None = None
    """Of the best peer's bulk enqueuing."""
    single_of_peers: float | None = None
    """Of the best peer's enqueuing one by one."""
    latency_ms: float | None = None
    idle_processor: float | None = None
    """Of a core."""
    idle_asked: float | None = None
    """Of the engine, in a second."""
    weight: float | None = None
    """Bytes for a queued job beyond its payload."""
