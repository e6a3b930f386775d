"""huey: its storage for the engine, and its consumer."""

from __future__ import annotations

import sys

from huey import RedisHuey, SqliteHuey  # type: ignore[import-not-found]

from bench.peers.drivers import tally, till

THREADS = 4
ON_REDIS = tally.url().startswith("redis:")
HUEY = (
    RedisHuey("bench", url=tally.url(), results=False)
    if ON_REDIS
    else SqliteHuey("bench", filename=tally.file(), fsync=True, results=False)
)
NOTHING = HUEY.task()(tally.Tally().handle)


def work(processes: int) -> None:
    every = tally.poll()
    pace = {"initial_delay": every, "max_delay": every, "backoff": 1.0} if every else {}
    if ON_REDIS:
        crew = {"worker_type": "thread", "workers": THREADS}
    else:
        crew = {"worker_type": "process", "workers": processes}
    HUEY.create_consumer(**crew, **pace).run()


if __name__ == "__main__":
    if sys.argv[1] == "enqueue":
        till.serve(NOTHING, None)
    else:
        work(int(sys.argv[2]))
