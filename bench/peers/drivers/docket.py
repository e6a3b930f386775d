"""docket: its queue over Redis streams, and its worker."""

from __future__ import annotations

import sys
from datetime import timedelta

from docket import Docket, Worker  # type: ignore[import-not-found]

from bench.peers.drivers import quick, tally, till

CONCURRENCY = 10
TALLY = tally.Tally()


async def nothing(payload: str) -> None:
    TALLY.handle(payload)


def opened() -> Docket:
    docket = Docket(name="bench", url=tally.url(), execution_ttl=timedelta(0))
    docket.register(nothing)
    return docket


async def enqueue() -> None:
    async with opened() as docket:
        # A key is drawn with each call of `add` and `call`, so they cannot be kept.
        async def put(payload: str) -> None:
            await docket.add(nothing)(payload)

        async def put_many(payloads: list[str]) -> None:
            await docket.add_many([docket.call(nothing)(payload) for payload in payloads])

        await till.serve_async(put, put_many)


async def work() -> None:
    every = tally.poll()
    pace = {"minimum_check_interval": timedelta(seconds=every)} if every else {}
    async with opened() as docket, Worker(docket, concurrency=CONCURRENCY, **pace) as worker:
        await worker.run_forever()


if __name__ == "__main__":
    quick.run(enqueue() if sys.argv[1] == "enqueue" else work())
