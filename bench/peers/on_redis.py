"""Peers on Redis, and what we want to reach beside them."""

from __future__ import annotations

from bench.peers.cast import Fleet, Peer
from bench.peers.goals import Goals, Rival, peer_called
from bench.peers.on_several import BOTH_WAYS, SAQ, TASKITO, UVLOOP

_HIREDIS = "hiredis==3.5.0"

PEERS = (
    Peer(
        name="BullMQ",
        pins=("bullmq@6.7.0", "ioredis@6.0.0"),
        driver="bullmq.mjs",
        delivery="at least once: stalled jobs run again",
        worker="its worker on Node, concurrency=100; nothing kept but a stream of events",
    ),
    Peer(
        name="dramatiq",
        pins=("dramatiq[redis]==2.2.1", _HIREDIS),
        driver="dramatiq",
        delivery="at least once",
        worker="its worker with 8 threads; nothing kept",
        fleet=Fleet.OWN,
        has_bulk=False,
    ),
    Peer(
        name="huey",
        pins=("huey==3.5.4", "redis==8.1.0", _HIREDIS),
        driver="huey",
        delivery="at most once: a job is popped before it runs",
        worker="its consumer with 4 threads; nothing kept",
        at_least_once=False,
        has_bulk=False,
    ),
    Peer(
        name="taskiq",
        pins=("taskiq==0.13.0", "taskiq-redis==1.2.4", _HIREDIS, UVLOOP),
        driver="taskiq",
        delivery="at least once",
        # Its only limit, maxlen, would cut off jobs that wait as well.
        worker="its worker over RedisStreamBroker: batches of 100, 100 jobs at a time; all "
        "messages kept in the stream",
        fleet=Fleet.OWN,
        has_bulk=False,
    ),
    SAQ,
    Peer(
        name="arq",
        pins=("arq==0.28.0", _HIREDIS, UVLOOP),
        driver="arq",
        delivery="at least once",
        worker="its worker, max_jobs=10; nothing kept",
        has_bulk=False,
        looks=BOTH_WAYS,
        interval=0.5,
    ),
    Peer(
        name="streaq",
        pins=("streaq==7.2.0", UVLOOP),
        driver="streaq",
        delivery="at least once",
        worker="its worker, concurrency=16; nothing kept",
    ),
    Peer(
        name="celery",
        pins=("celery[redis]==5.7.0", _HIREDIS),
        driver="celery",
        delivery="at least once, an hour later (task_acks_late=True)",
        worker="its worker, solo pool, worker_prefetch_multiplier=100; nothing kept",
        has_bulk=False,
    ),
    Peer(
        name="rq",
        pins=("rq==2.12.0", _HIREDIS),
        driver="rq",
        delivery="at most once, unless retries are asked for",
        worker="SimpleWorker, which does not fork for each job; nothing kept",
        at_least_once=False,
    ),
    Peer(
        name="docket",
        pins=("pydocket==0.27.0", _HIREDIS, UVLOOP),
        driver="docket",
        delivery="at least once",
        worker="its worker, concurrency=10; nothing kept",
        looks=BOTH_WAYS,
    ),
    TASKITO,
)

GOALS = Goals(
    drain_of_raw=0.2,
    rivals=(
        peer_called("BullMQ", 4.0),
        Rival("the fastest peer on Python", 8.0, lambda peer: not peer.on_node),
    ),
    bulk_of_peers=3.0,
    single_of_peers=1.0,
    idle_asked=1.0,
    weight=350.0,
)
