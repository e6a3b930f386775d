"""Peers on PostgreSQL, and what we want to reach beside them."""

from __future__ import annotations

from bench.peers.cast import Peer
from bench.peers.goals import Goals, peer_called
from bench.peers.on_several import BOTH_WAYS, SAQ, TASKITO, UVLOOP

PEERS = (
    Peer(
        name="graphile-worker",
        pins=("graphile-worker@0.18.0",),
        driver="graphile.mjs",
        delivery="at least once, four hours later",
        worker="its worker on Node: 24 concurrent jobs, a local queue of 500, batched completion; "
        "nothing kept",
    ),
    Peer(
        name="pg-boss",
        # 12.38.0 asks for a version of a package that is not to be had.
        pins=("pg-boss@12.35.0",),
        driver="pgboss.mjs",
        delivery="at least once",
        # It may be told to keep them for a second, and sweeps what is older every day.
        worker="its worker on Node: batches of 500, LISTEN/NOTIFY; finished jobs kept for a week",
    ),
    Peer(
        name="pgqueuer",
        pins=("pgqueuer[asyncpg]==1.6.0", UVLOOP),
        driver="pgqueuer",
        durability="the server's: all of its tables are logged",
        delivery="at least once",
        worker="its queue manager over asyncpg, batch_size=500; three log rows a job kept",
    ),
    Peer(
        name="procrastinate",
        pins=("procrastinate==3.10.0", "psycopg[binary,pool]==3.3.8", UVLOOP),
        driver="procrastinate",
        delivery="at least once, if the user retries stalled jobs",
        worker="its worker, concurrency=10; nothing kept",
    ),
    SAQ,
    Peer(
        name="dbos",
        pins=("dbos==3.3.0", "psycopg[binary]==3.3.8"),
        driver="dbos",
        delivery="at least once, after a restart",
        worker="its application with a queue of workflows; all of them kept",
        has_bulk=False,
        looks=BOTH_WAYS,
        interval=1.0,
    ),
    TASKITO,
)

GOALS = Goals(
    drain_of_raw=0.4,
    rivals=(peer_called("graphile-worker", 1.2), peer_called("pgqueuer", 3.0)),
    bulk_of_peers=3.0,
    single_of_peers=1.0,
    idle_asked=1.0,
)
