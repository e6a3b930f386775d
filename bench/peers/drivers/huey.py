"""huey: SqliteHuey and its consumer, a process for each worker."""

from __future__ import annotations

import sys

from huey import SqliteHuey  # type: ignore[import-not-found]

from bench.peers.drivers import tally, till

HUEY = SqliteHuey("bench", filename=tally.file(), fsync=True, results=False)
NOTHING = HUEY.task()(tally.Tally().handle)


def main() -> None:
    if sys.argv[1] == "enqueue":
        till.serve(NOTHING, None)
    else:
        every = tally.poll()
        pace = {"initial_delay": every, "max_delay": every, "backoff": 1.0} if every else {}
        workers = int(sys.argv[2])
        HUEY.create_consumer(workers=workers, worker_type="process", **pace).run()


if __name__ == "__main__":
    main()
