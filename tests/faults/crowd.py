"""Many processes that work on one queue and write down when each of them had which job.

python -m tests.faults.crowd <URL> <queue> <members> <folder for their journals>
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.store.open import open_store

FATAL = "fatal"
"""The name of jobs whose first holder is killed."""
TTL = 5_000_000
_BEAT_SECONDS = 0.3
_WORK_SECONDS = 0.02
_NAP_SECONDS = 0.05


def main(url: str, queue: str, members: int, folder: Path) -> None:
    """Nothing is open yet when they part, so that they have nothing in common."""
    children = []
    for number in range(members):
        child = os.fork()
        if not child:
            _member(url, queue, folder / f"{number}.txt")
            os._exit(0)
        children.append(child)
    for child in children:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _member(url: str, queue: str, journal: Path) -> None:
    desk = Desk(open_store(url))
    session = desk.dispatch.open_session(journal.stem, ttl=TTL)
    beaten = time.monotonic()
    with journal.open("w", buffering=1) as lines:
        while True:
            if time.monotonic() - beaten > _BEAT_SECONDS:
                beaten = time.monotonic()
                desk.store.beat(session, TTL)
            jobs = desk.dispatch.claim([queue], 1, session=session)
            for job in jobs:
                lines.write(_worked(job))
                desk.report.finish(job)
            if not jobs:
                if _is_done(desk, queue):
                    break
                time.sleep(_NAP_SECONDS)
    desk.store.close()


def _worked(job: Job) -> str:
    """Had from, had until, key and weight."""
    began = time.monotonic_ns()
    if job.name == FATAL and not job.crashes:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(_WORK_SECONDS)
    return f"{began} {time.monotonic_ns()} {job.key} {job.weight}\n"


def _is_done(desk: Desk, queue: str) -> bool:
    (view,) = desk.store.survey([queue])
    return not view.counts[State.QUEUED] and not view.counts[State.RUNNING]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
