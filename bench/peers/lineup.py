"""Those who take part in this run, and those who do not, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from bench.engines.engine import Engine
from bench.peers.cast import Contestant, Peer, ours
from bench.peers.fetch import fetch, runtimes
from bench.peers.stage import Trouble
from bench.plan import Setup
from bench.result import Cell, Column, Table

K = TypeVar("K")
T = TypeVar("T")

_NOT_ASKED = "not asked for"


class Lineup:
    """Stoker and the peers that could be had. A peer that fails is out from then on."""

    def __init__(
        self,
        engine: Engine,
        contestants: Sequence[Contestant],
        peers: Sequence[Peer] = (),
        absent: Mapping[str, str] | None = None,
    ) -> None:
        self.engine = engine
        self.contestants = tuple(contestants)
        self._peers = peers
        self._absent = dict(absent or {})

    def attempt(self, contestant: Contestant, turn: Callable[[], T]) -> T | None:
        """A turn; None if the contestant is out or fails in it. We ourselves must not fail."""
        if contestant.name in self._absent:
            return None
        try:
            return turn()
        except Trouble as trouble:
            if contestant.is_ours:
                raise
            self._absent[contestant.name] = f"out: {trouble}"
            return None

    def table(self) -> Table:
        """What a reader must know about each peer."""
        columns = ("peer", "durability", "delivery", "measured through", "took part")
        rows = tuple(map(self._row, self._peers))
        return Table("Peers", tuple(map(Column, columns)), rows, f"They run on {runtimes()}.")

    def _row(self, peer: Peer) -> tuple[Cell, ...]:
        part = self._absent.get(peer.name, "yes")
        return (peer.packages, peer.durability, peer.delivery, peer.worker, part)


def line_up(setup: Setup, engine: Engine, peers: Sequence[Peer]) -> Lineup:
    """Stoker, and all peers that can be had."""
    contestants, absent = all_of_ours(engine), {}
    for peer in setup.along(peers, "peers: fetching those that are not there yet"):
        reason = _NOT_ASKED if setup.shelf is None else fetch(peer, setup.shelf)
        if setup.shelf is None or reason is not None:
            absent[peer.name] = f"absent: {reason}"
        else:
            contestants.append(peer.contestant(setup.shelf))
    return Lineup(engine, contestants, peers, absent)


def all_of_ours(engine: Engine) -> list[Contestant]:
    """Stoker with both kinds of handlers. Where the bare loops keep nothing of finished jobs it
    forgets them, too; beside that stands what it costs to keep them."""
    if engine.keeps:
        return [ours("async"), ours("sync")]
    kept = ours("async")._replace(name="Stoker, async, finished kept", waits=False)
    return [ours("async", forgets=True), ours("sync", forgets=True), kept]


def whole(rounds: Mapping[K, list[T | None]]) -> dict[K, list[T]]:
    """Only those who came through every round."""
    there = {name: [turn for turn in turns if turn is not None] for name, turns in rounds.items()}
    return {name: turns for name, turns in there.items() if len(turns) == len(rounds[name])}
