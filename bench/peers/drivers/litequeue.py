"""litequeue: a queue without a worker; the loop is the plainest one over pop and done."""

from __future__ import annotations

import sys
import time

from litequeue import LiteQueue  # type: ignore[import-not-found]

from bench.peers.drivers import tally, till

QUEUE = LiteQueue(tally.file(), timeout=30)
# Its constructor asks for NORMAL; the connection is open to its users.
QUEUE.conn.execute("PRAGMA synchronous = FULL")


def put_many(payloads: list[str]) -> None:
    with QUEUE.transaction():
        for payload in payloads:
            QUEUE.put(payload)


def work() -> None:
    handle, pause = tally.Tally().handle, tally.poll() or 0.001
    while True:
        message = QUEUE.pop()
        if message is None:
            time.sleep(pause)
        else:
            handle(message.data)
            QUEUE.done(message.message_id)


if __name__ == "__main__":
    if sys.argv[1] == "enqueue":
        till.serve(QUEUE.put, put_many)
    else:
        work()
