"""The comparison as one benchmark: all measures in one run on one engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bench.engines.engine import Engine
from bench.peers import on_postgres, on_redis, on_sqlite, throughput, waiting
from bench.peers.cast import Peer
from bench.peers.goals import Goals
from bench.peers.lineup import line_up
from bench.peers.targets import drain_targets, enqueue_targets, waiting_targets
from bench.plan import Setup
from bench.result import Result


class Contest(NamedTuple):
    """Who is there on an engine, and what we want to reach beside them."""

    peers: Sequence[Peer]
    goals: Goals


CONTESTS: Mapping[str, Contest] = {
    "sqlite": Contest(on_sqlite.PEERS, on_sqlite.GOALS),
    "redis": Contest(on_redis.PEERS, on_redis.GOALS),
    "postgres": Contest(on_postgres.PEERS, on_postgres.GOALS),
}


def run(engine: Engine, setup: Setup) -> Result:
    """Stoker and its peers at everything that they have in common."""
    (peers, goals), plan = CONTESTS[engine.name], setup.plan.peers
    lineup = line_up(setup, engine, peers)
    turns = throughput.measure(setup, lineup)
    waits = waiting.measure(setup, lineup)
    tables = (
        lineup.table(),
        *throughput.tables(turns, plan, engine),
        waiting.table(waits, plan, engine),
    )
    targets = (
        *drain_targets(goals, engine, peers, turns),
        *enqueue_targets(goals, engine, peers, turns),
        *waiting_targets(goals, engine, waits),
    )
    return Result(tables, targets)
