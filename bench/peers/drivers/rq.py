"""rq: its queue, and its worker that runs jobs in its own process."""

from __future__ import annotations

import sys

from redis import Redis
from rq import Queue, SimpleWorker  # type: ignore[import-not-found]

from bench.peers.drivers import tally, till

NAME = "bench.peers.drivers.rq.nothing"
CONNECTION = Redis.from_url(tally.url())
QUEUE = Queue(connection=CONNECTION)
TALLY = tally.Tally()


def nothing(payload: str) -> None:
    TALLY.handle(payload)


def put_many(payloads: list[str]) -> None:
    jobs = [Queue.prepare_data(NAME, (payload,), result_ttl=0) for payload in payloads]
    QUEUE.enqueue_many(jobs)


def main() -> None:
    if sys.argv[1] == "enqueue":
        till.serve(lambda payload: QUEUE.enqueue(NAME, payload, result_ttl=0), put_many)
    else:
        worker = SimpleWorker([QUEUE], connection=CONNECTION, log_job_description=False)
        worker.work(logging_level="WARNING")


if __name__ == "__main__":
    main()
