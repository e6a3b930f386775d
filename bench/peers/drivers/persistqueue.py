"""persist-queue: SQLiteAckQueue, a queue without a worker; the loop is get and ack."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from persistqueue import Empty, SQLiteAckQueue  # type: ignore[import-not-found]

from bench.peers.drivers import tally, till

_KEPT = 100
"""Its search passes over what is acknowledged but not cleared, so it is cleared often."""


def opened(*, resume: bool) -> SQLiteAckQueue:
    file = Path(tally.file())
    return SQLiteAckQueue(
        str(file.parent), auto_resume=resume, db_file_name=file.name, multithreading=True
    )


def work(queue: SQLiteAckQueue) -> None:
    handle, pause, done = tally.Tally().handle, tally.poll() or 0.001, 0
    while True:
        try:
            item = queue.get(block=False, raw=True)
        except Empty:
            time.sleep(pause)
            continue
        handle(item["data"])
        queue.ack(item)
        done += 1
        if done % _KEPT == 0:
            queue.clear_acked_data(max_delete=_KEPT, keep_latest=0)


if __name__ == "__main__":
    if sys.argv[1] == "enqueue":
        till.serve(opened(resume=False).put, None)
    else:
        work(opened(resume=True))
