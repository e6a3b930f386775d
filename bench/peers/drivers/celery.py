"""celery: its Redis transport, and its worker without a pool."""

from __future__ import annotations

import sys

from celery import Celery  # type: ignore[import-not-found]

from bench.peers.drivers import tally, till

QUIET = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]
APP = Celery("bench", broker=tally.url())
APP.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=100,
    broker_connection_retry_on_startup=True,
)
TALLY = tally.Tally()


@APP.task(name="nothing")  # type: ignore[untyped-decorator]
def nothing(payload: str) -> None:
    TALLY.handle(payload)


def main() -> None:
    if sys.argv[1] == "enqueue":
        till.serve(nothing.delay, None)
    else:
        APP.worker_main(["worker", "--pool=solo", *QUIET])


if __name__ == "__main__":
    main()
