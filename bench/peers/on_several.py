"""Peers that run on more than one engine, and what those on Python have in common."""

from __future__ import annotations

from bench.peers.cast import SHORTEST, Peer

UVLOOP = "uvloop==0.23.0"
BOTH_WAYS = (None, SHORTEST)
"""As it comes, and with a look as often as it may."""

SAQ = Peer(
    name="saq",
    pins=("saq[hiredis,postgres,redis]==0.26.4", UVLOOP),
    driver="saq",
    delivery="at most once, unless retries are asked for",
    worker="its worker, concurrency=100; nothing kept",
    at_least_once=False,
    has_bulk=False,
)
TASKITO = Peer(
    name="taskito",
    pins=("taskito==0.22.0",),
    driver="taskito",
    delivery="at least once",
    # Told to keep nothing it archives finished jobs all the same, and sweeps them later.
    worker="its worker with 16 threads, scheduler_batch_size=100, push_dispatch=True; finished "
    "jobs and their metrics kept for a week",
    looks=BOTH_WAYS,
    interval=0.05,
)
