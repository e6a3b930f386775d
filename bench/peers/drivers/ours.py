"""Stoker: an app with two tasks that do nothing, and a supervised fleet of workers."""

from __future__ import annotations

import itertools
import os
import sys

from bench.peers.drivers import tally, till
from stoker import Retention, Stoker
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
        app.ensure_schedules()  # opens the store; the first enqueuing need not
        if int(os.environ["STOKER_BENCH_FORGETS"]):
            app.configure(QUEUE, retention=Retention(finished=0))
        enqueue(os.environ["STOKER_BENCH_TASK"], int(os.environ["STOKER_BENCH_KEYS"]))
    else:
        Supervisor(f"{__spec__.name}:app", WorkerSettings((QUEUE,)), processes).run()


def enqueue(name: str, keys: int) -> None:
    task = app[name]
    keyed = [task.options(key=f"tenant {number}") for number in range(keys)]
    tasks = itertools.cycle(keyed or [task])

    def many(payloads: list[str]) -> None:
        app.enqueue_many([each.call(text) for text, each in zip(payloads, tasks, strict=False)])

    till.serve(task.enqueue, many)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
