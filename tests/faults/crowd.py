"""Many processes that press against the limits of some queues, and note what each of them had when.

python -m tests.faults.crowd <URL> <queues> <members> <most at once> <folder for their journals>
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.store.clock import wall_clock
from stoker.store.open import open_store
from tests.faults.journal import Granted, Journal, Pulse, Ruled, Try, lease_of

FATAL = b'"fatal"'
"""In the payload of jobs whose first holder is killed."""
TTL = 3_000_000
_BEAT_EVERY = 300_000
_WORK_SECONDS = 0.04
_NAP_SECONDS = 0.05


def main(url: str, queues: list[str], members: int, limit: int, folder: Path) -> None:
    """Nothing is open yet when they part, so that they have nothing in common."""
    children = []
    for number in range(members):
        child = os.fork()
        if not child:
            Member(url, queues, limit, Journal(folder, f"member-{number}")).work()
            os._exit(0)
        children.append(child)
    for child in children:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


class Member:
    """Takes jobs, holds them for a moment, and finishes them, until none is left."""

    def __init__(self, url: str, queues: list[str], limit: int, journal: Journal) -> None:
        self._desk = Desk(open_store(url))
        self._queues = queues
        self._limit = limit
        self._journal = journal
        self._beaten_at = wall_clock()
        self._session = self._desk.dispatch.open_session("member", ttl=TTL)
        journal.write(Pulse(at=self._beaten_at, session=self._session, ttl=TTL))

    def work(self) -> None:
        while True:
            self._beat()
            jobs = self._desk.dispatch.claim(self._queues, self._limit, session=self._session)
            if jobs:
                self._do(jobs)
            elif self._nothing_is_left():
                break
            else:
                time.sleep(_NAP_SECONDS)
        self._desk.store.close()

    def _beat(self) -> None:
        now = wall_clock()
        if now > self._beaten_at + _BEAT_EVERY:
            alive = self._desk.dispatch.beat(self._session, ttl=TTL).alive
            self._journal.write(Pulse(at=now, session=self._session, ttl=TTL, alive=alive))
            self._beaten_at = now

    def _do(self, jobs: list[Job]) -> None:
        token, leases = jobs[0].token or 0, [lease_of(job) for job in jobs]
        entry = Granted(at=wall_clock(), token=token, session=self._session, leases=leases)
        self._journal.write(entry)
        if any(FATAL in job.payload and not job.crashes for job in jobs):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(_WORK_SECONDS)
        for job in jobs:
            self._journal.write(Try(at=wall_clock(), job=job.id, token=token, what="finish"))
            self._desk.report.finish(job, str(token).encode())
            ruled = Ruled(at=wall_clock(), job=job.id, token=token, state=State.FINISHED)
            self._journal.write(ruled)

    def _nothing_is_left(self) -> bool:
        views = self._desk.store.survey()
        return not any(v.counts[State.QUEUED] or v.counts[State.RUNNING] for v in views)


if __name__ == "__main__":
    _, _url, _queues, _members, _limit, _folder = sys.argv
    main(_url, _queues.split(","), int(_members), int(_limit), Path(_folder))
