"""arq: its Redis pool, and its worker."""

from __future__ import annotations

import sys
from typing import Any

from arq import Worker, create_pool, func  # type: ignore[import-not-found]
from arq.connections import RedisSettings  # type: ignore[import-not-found]

from bench.peers.drivers import quick, tally, till

CONCURRENCY = 10
SETTINGS = RedisSettings.from_dsn(tally.url())
TALLY = tally.Tally()


async def nothing(_: dict[Any, Any], payload: str) -> None:
    TALLY.handle(payload)


async def enqueue() -> None:
    pool = await create_pool(SETTINGS)
    await till.serve_async(lambda payload: pool.enqueue_job("nothing", payload), None)


async def work() -> None:
    every = tally.poll()
    pace = {"poll_delay": every} if every else {}
    task = func(nothing, name="nothing", keep_result=0)
    worker = Worker([task], redis_settings=SETTINGS, max_jobs=CONCURRENCY, **pace)
    await worker.async_run()


if __name__ == "__main__":
    quick.run(enqueue() if sys.argv[1] == "enqueue" else work())
