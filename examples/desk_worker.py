"""At the desk, underneath the library: a worker of your own, in some twenty lines.

python examples/desk_worker.py
"""

from __future__ import annotations

import json
from tempfile import TemporaryDirectory

from stoker import Desk, Job, State, open_store
from stoker.kernel.outcome import Finished

TTL = 10_000_000  # microseconds: a worker that is silent for so long is taken for dead


def enqueue(desk: Desk) -> None:
    people = ("ann", "bob", "cleo", "dora", "emil")
    letters = [Job("mail", payload=json.dumps({"to": person}).encode()) for person in people]
    placed = desk.intake.enqueue_many(letters)
    print(f"{len(placed)} letters are on the disk")


def work(desk: Desk) -> None:
    session = desk.dispatch.open_session("worker-1", ttl=TTL)
    jobs = desk.dispatch.claim(["mail"], limit=2, session=session)
    while jobs:
        for job in jobs:
            print(f"letter {job.id} goes to {json.loads(job.payload)['to']}")
        # Report what is done and claim what is next, in one durable step.
        request = desk.dispatch.request(["mail"], limit=2, session=session)
        _, grants = desk.report.many([(job, Finished(b'"sent"')) for job in jobs], [request])
        jobs = desk.dispatch.granted(grants[0])
    desk.dispatch.close_session(session)


def main() -> None:
    with TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/jobs.db")
        desk = Desk(store)
        enqueue(desk)
        work(desk)
        counts = store.survey(["mail"])[0].counts
        print(f"queued {counts[State.QUEUED]}, finished {counts[State.FINISHED]}")
        store.close()


if __name__ == "__main__":
    main()
