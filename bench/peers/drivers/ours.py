"""Stoker: an app with two tasks that do nothing, and a supervised fleet of workers."""

from __future__ import annotations

import os
import sys

from bench.peers.drivers import tally, till
from stoker import Stoker
from stoker.fleet.supervisor import Supervisor
from stoker.worker.worker import WorkerSettings

TALLY = tally.Tally()
QUEUE = "work"

app = Stoker(tally.url())


@app.task(name="async", queue=QUEUE)
async def nothing_async(payload: str) -> None:
    TALLY.handle(payload)


@app.task(name="sync", queue=QUEUE)
def nothing_sync(payload: str) -> None:
    TALLY.handle(payload)


def main(job: str, processes: int = 1) -> None:
    if job == "enqueue":
        task = app[os.environ["STOKER_BENCH_TASK"]]
        app.ensure_schedules()  # opens the store; the first enqueuing need not
        till.serve(
            task.enqueue,
            lambda payloads: app.enqueue_many([task.call(payload) for payload in payloads]),
        )
    else:
        Supervisor(f"{__spec__.name}:app", WorkerSettings((QUEUE,)), processes).run()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
