"""Peers on SQLite, and what we want to reach beside them."""

from __future__ import annotations

from bench.peers.cast import SHORTEST, Fleet, Peer
from bench.peers.goals import Goals, Rival
from bench.peers.on_several import BOTH_WAYS, TASKITO

PEERS = (
    Peer(
        name="huey",
        pins=("huey==3.5.4",),
        driver="huey",
        durability="FULL (fsync=True)",
        delivery="at most once: a job is deleted before it runs",
        worker="its consumer, process workers; nothing kept",
        fleet=Fleet.OWN,
        at_least_once=False,
        has_bulk=False,
        looks=BOTH_WAYS,
        interval=0.1,
    ),
    Peer(
        name="litequeue",
        pins=("litequeue==0.9",),
        driver="litequeue",
        durability="FULL, set on its connection; it comes with NORMAL",
        delivery="at least once, if the user frees old locks",
        worker="none of its own: a loop over pop and done; finished jobs kept",
        looks=(SHORTEST,),
    ),
    Peer(
        name="persist-queue",
        pins=("persist-queue==1.1.0",),
        driver="persistqueue",
        durability="FULL",
        delivery="at least once, after a restart",
        worker="none of its own: a loop over SQLiteAckQueue's get and ack, in one process only; "
        "nothing kept: cleared every 100 jobs",
        fleet=Fleet.ALONE,
        has_bulk=False,
        looks=(SHORTEST,),
    ),
    TASKITO._replace(
        durability="NORMAL: it cannot be told otherwise",
        worker="its worker with threads, scheduler_batch_size=100, push_dispatch=True; finished "
        "jobs and their metrics kept for a week",
    ),
    Peer(
        name="plainjob",
        pins=("plainjob@0.0.14", "better-sqlite3@12.11.1"),
        driver="plainjob.mjs",
        durability="FULL, set on its connection; it comes with NORMAL",
        delivery="at least once, half an hour later",
        worker="its worker on Node; finished jobs kept for a week",
        looks=BOTH_WAYS,
        interval=1.0,
    ),
)

GOALS = Goals(
    drain_of_raw=0.4,
    rivals=(Rival("the fastest at-least-once peer", 3.0, lambda peer: peer.at_least_once),),
    bulk_of_raw=0.5,
    latency_ms=3.0,
    idle_processor=0.005,
)
