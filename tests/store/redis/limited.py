"""A process that works on limited queues, and tells the most it ever saw in use.

python -m tests.store.redis.limited <URL> <queue> ...
"""

from __future__ import annotations

import sys

from stoker.desk import Desk
from stoker.kernel.job import State
from stoker.store import Filter
from stoker.store.open import open_store


def main(url: str, *queues: str) -> None:
    desk = Desk(open_store(url))
    most = 0
    while True:
        jobs = desk.dispatch.claim(queues, 3)
        views = desk.store.survey(queues)
        most = max(most, *(view.used for view in views))
        for job in jobs:
            keyed = Filter(states=(State.RUNNING,), queue=job.queue, key=job.key)
            assert job.key is None or len(desk.store.find(keyed)) <= 1
            desk.report.finish(job)
        if not jobs and not any(view.counts[State.QUEUED] for view in views):
            break
    print(most)
    desk.store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
