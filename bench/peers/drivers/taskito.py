"""taskito: its queue on any engine, and its worker with threads."""

from __future__ import annotations

import os
import sys

from taskito import Queue  # type: ignore[import-not-found]

from bench.peers.drivers import tally, till

NAME = "nothing"
BATCH = 100
THREADS = 16


def opened() -> Queue:
    every = tally.poll()
    pace = {"scheduler_poll_interval_ms": max(1, round(every * 1e3))} if every else {}
    engine = tally.url().partition(":")[0]
    place = (
        {"db_path": tally.file()}
        if engine == "sqlite"
        else {"backend": engine, "db_url": tally.url(), "workers": THREADS}
    )
    queue = Queue(scheduler_batch_size=BATCH, push_dispatch=True, **place, **pace)
    queue.task(name=NAME)(tally.Tally().handle)
    return queue


def main(queue: Queue) -> None:
    if sys.argv[1] == "enqueue":
        till.serve(
            lambda payload: queue.enqueue(NAME, (payload,)),
            lambda payloads: queue.enqueue_many(NAME, [(payload,) for payload in payloads]),
        )
    else:
        os.environ["TASKITO_LOG_LEVEL"] = "WARNING"
        queue.run_worker()


if __name__ == "__main__":
    main(opened())
