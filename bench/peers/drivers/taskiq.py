"""taskiq: its broker over a Redis stream, and its worker."""

from __future__ import annotations

import sys

from taskiq.__main__ import main as run_command  # type: ignore[import-not-found]
from taskiq_redis import RedisStreamBroker  # type: ignore[import-not-found]

from bench.peers.drivers import quick, tally, till

BROKER = RedisStreamBroker(tally.url())
TALLY = tally.Tally()


@BROKER.task(task_name="nothing")  # type: ignore[untyped-decorator]
async def nothing(payload: str) -> None:
    TALLY.handle(payload)


async def enqueue() -> None:
    await BROKER.startup()
    await till.serve_async(nothing.kiq, None)
    await BROKER.shutdown()


def main() -> None:
    if sys.argv[1] == "enqueue":
        quick.run(enqueue())
    else:
        place = f"{__spec__.name}:BROKER"
        sys.argv = ["taskiq", "worker", place, "--workers", sys.argv[2], "--log-level", "WARNING"]
        run_command()


if __name__ == "__main__":
    main()
