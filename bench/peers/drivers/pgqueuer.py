"""pgqueuer: its queue over asyncpg, and its queue manager."""

from __future__ import annotations

import signal
import sys

import asyncpg  # type: ignore[import-untyped]
from pgqueuer import PgQueuer  # type: ignore[import-not-found]
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found]
from pgqueuer.models import Job  # type: ignore[import-not-found]
from pgqueuer.queries import Queries  # type: ignore[import-not-found]

from bench.peers.drivers import quick, tally, till

BATCH = 500
NAME = "nothing"
TALLY = tally.Tally()


async def driver() -> AsyncpgDriver:
    return AsyncpgDriver(await asyncpg.connect(tally.url()))


async def enqueue() -> None:
    queries = Queries(await driver())
    await queries.install()

    async def put_many(payloads: list[str]) -> None:
        count = len(payloads)
        data: list[bytes | None] = [payload.encode() for payload in payloads]
        await queries.enqueue([NAME] * count, data, [0] * count)

    await till.serve_async(lambda payload: queries.enqueue(NAME, payload.encode()), put_many)


async def work() -> None:
    manager = PgQueuer(await driver())

    @manager.entrypoint(NAME)  # type: ignore[untyped-decorator]
    async def nothing(job: Job) -> None:
        TALLY.handle(job.payload.decode())

    signal.signal(signal.SIGTERM, lambda *_: manager.shutdown.set())
    await manager.run(batch_size=BATCH)


if __name__ == "__main__":
    quick.run(enqueue() if sys.argv[1] == "enqueue" else work())
