"""dbos: its client, and an application with a queue of workflows."""

from __future__ import annotations

import signal
import sys
import threading

from dbos import DBOS, DBOSClient  # type: ignore[import-not-found]

from bench.peers.drivers import tally, till

APP = {"name": "bench", "system_database_url": tally.url(), "log_level": "ERROR"}
QUEUE = "bench"
TALLY = tally.Tally()


@DBOS.workflow(name="nothing")  # type: ignore[untyped-decorator]
def nothing(payload: str) -> None:
    TALLY.handle(payload)


def launch() -> None:
    DBOS(config=APP)
    DBOS.launch()
    every = tally.poll()
    pace = {"polling_interval_sec": every} if every else {}
    DBOS.register_queue(QUEUE, **pace)


def enqueue() -> None:
    launch()
    DBOS.destroy()
    client = DBOSClient(system_database_url=tally.url())
    order = {"workflow_name": "nothing", "queue_name": QUEUE}
    till.serve(lambda payload: client.enqueue(order, payload), None)


def work() -> None:
    launch()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    ended.wait()


if __name__ == "__main__":
    enqueue() if sys.argv[1] == "enqueue" else work()
