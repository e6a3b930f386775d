"""saq: its queue on Redis or PostgreSQL, and its worker."""

from __future__ import annotations

import sys
from typing import Any

from saq import Queue, Worker  # type: ignore[import-not-found]

from bench.peers.drivers import quick, tally, till

CONCURRENCY = 100
TALLY = tally.Tally()


async def nothing(_: dict[str, Any], *, payload: str) -> None:
    TALLY.handle(payload)


async def enqueue() -> None:
    queue = Queue.from_url(tally.url())
    await queue.connect()
    await till.serve_async(lambda payload: queue.enqueue("nothing", payload=payload, ttl=-1), None)
    await queue.disconnect()


async def work() -> None:
    queue = Queue.from_url(tally.url())
    await queue.connect()
    await Worker(queue, [nothing], concurrency=CONCURRENCY).start()


if __name__ == "__main__":
    quick.run(enqueue() if sys.argv[1] == "enqueue" else work())
