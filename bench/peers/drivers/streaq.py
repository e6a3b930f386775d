"""streaq: its worker, which enqueues as well."""

from __future__ import annotations

import sys

from streaq import Worker  # type: ignore[import-not-found]

from bench.peers.drivers import quick, tally, till

CONCURRENCY = 16
WORKER = Worker(redis_url=tally.url(), concurrency=CONCURRENCY, anyio_kwargs={"use_uvloop": True})
TALLY = tally.Tally()


@WORKER.task(ttl=0)  # type: ignore[untyped-decorator]
async def nothing(payload: str) -> None:
    TALLY.handle(payload)


async def put(payload: str) -> None:
    await nothing.enqueue(payload)


async def put_many(payloads: list[str]) -> None:
    await WORKER.enqueue_many([nothing.enqueue(payload) for payload in payloads])


async def enqueue() -> None:
    async with WORKER:
        await till.serve_async(put, put_many)


if __name__ == "__main__":
    if sys.argv[1] == "enqueue":
        quick.run(enqueue())
    else:
        WORKER.run_sync()
