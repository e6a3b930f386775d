"""procrastinate: its app over psycopg, and its worker."""

from __future__ import annotations

import sys

from procrastinate import App, PsycopgConnector  # type: ignore[import-not-found]

from bench.peers.drivers import quick, tally, till

CONCURRENCY = 10
APP = App(connector=PsycopgConnector(conninfo=tally.url()))
TALLY = tally.Tally()


@APP.task(name="nothing")  # type: ignore[untyped-decorator]
async def nothing(payload: str) -> None:
    TALLY.handle(payload)


async def enqueue() -> None:
    async with APP.open_async():
        await APP.schema_manager.apply_schema_async()
        await till.serve_async(
            lambda payload: nothing.defer_async(payload=payload),
            lambda payloads: nothing.batch_defer_async(*({"payload": each} for each in payloads)),
        )


async def work() -> None:
    async with APP.open_async():
        await APP.run_worker_async(concurrency=CONCURRENCY, delete_jobs="successful")


if __name__ == "__main__":
    quick.run(enqueue() if sys.argv[1] == "enqueue" else work())
