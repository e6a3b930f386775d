"""Those who take part in this run, and those who do not, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from bench.peers.cast import OURS, PEERS, Contestant, Peer, ours
from bench.peers.fetch import fetch
from bench.peers.stage import Trouble
from bench.plan import Setup
from bench.result import Cell, Column, Table

K = TypeVar("K")
T = TypeVar("T")

_NOT_ASKED = "not asked for"


class Lineup:
    """Stoker and the peers that could be had. A peer that fails is out from then on."""

    def __init__(self, contestants: Sequence[Contestant], absent: Mapping[str, str]) -> None:
        self.contestants = tuple(contestants)
        self._absent = dict(absent)

    def attempt(self, contestant: Contestant, turn: Callable[[], T]) -> T | None:
        """A turn; None if the contestant is out or fails in it. We ourselves must not fail."""
        if contestant.name in self._absent:
            return None
        try:
            return turn()
        except Trouble as trouble:
            if contestant.name in OURS:
                raise
            self._absent[contestant.name] = f"out: {trouble}"
            return None

    def table(self) -> Table:
        """What a reader must know about each peer."""
        columns = ("peer", "durability", "delivery", "measured through", "took part")
        return Table("Peers", tuple(map(Column, columns)), tuple(map(self._row, PEERS)))

    def _row(self, peer: Peer) -> tuple[Cell, ...]:
        packages = ", ".join(peer.pins).replace("==", " ").replace("@", " ")
        part = self._absent.get(peer.name, "yes")
        return (packages, peer.sync, peer.delivery, peer.worker, part)


def line_up(setup: Setup) -> Lineup:
    """Stoker, and all peers that can be had."""
    contestants, absent = [ours("async"), ours("sync")], {}
    for peer in setup.along(PEERS, "peers: fetching those that are not there yet"):
        reason = _NOT_ASKED if setup.shelf is None else fetch(peer, setup.shelf)
        if setup.shelf is None or reason is not None:
            absent[peer.name] = f"absent: {reason}"
        else:
            contestants.append(peer.contestant(setup.shelf))
    return Lineup(contestants, absent)


def whole(rounds: Mapping[K, list[T | None]]) -> dict[K, list[T]]:
    """Only those who came through every round."""
    there = {name: [turn for turn in turns if turn is not None] for name, turns in rounds.items()}
    return {name: turns for name, turns in there.items() if len(turns) == len(rounds[name])}
