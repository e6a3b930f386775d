"""taskito: its queue on SQLite and its worker with threads."""

from __future__ import annotations

import sys

from taskito import Queue  # type: ignore[import-not-found]

from bench.peers.drivers import tally, till

NAME = "nothing"


def opened() -> Queue:
    every = tally.poll()
    pace = {"scheduler_poll_interval_ms": max(1, round(every * 1e3))} if every else {}
    queue = Queue(db_path=tally.file(), scheduler_batch_size=100, push_dispatch=True, **pace)
    queue.task(name=NAME)(tally.Tally().handle)
    return queue


def main(queue: Queue) -> None:
    if sys.argv[1] == "enqueue":
        till.serve(
            lambda payload: queue.enqueue(NAME, (payload,)),
            lambda payloads: queue.enqueue_many(NAME, [(payload,) for payload in payloads]),
        )
    else:
        queue.run_worker()


if __name__ == "__main__":
    main(opened())
