"""A report makes its pages, waits for them, and is put together when the last one is done.

python examples/family.py
"""

from __future__ import annotations

from tempfile import TemporaryDirectory

from stoker import Desk, Failure, Job, open_store
from stoker.store import Filter


def report(desk: Desk, job: Job) -> None:
    """Runs twice: first it makes the pages, later it binds them."""
    if not (job.open_children or job.finished_children):
        pages = desk.intake.spawn(job, [Job("pages", payload=b"%d" % n) for n in (1, 2, 3)])
        waiting = desk.report.finish(job)
        print(f"the report made pages {pages} and is {waiting.state.name} for {waiting.waits_for}")
        return
    children = desk.store.find(Filter(parent_id=job.id))
    done = b", ".join(child.result for child in children if child.result).decode()
    print(f"{job.finished_children} pages are done and {job.failed_children} is not: {done}")
    desk.report.finish(job, result=done.encode())


def page(desk: Desk, job: Job) -> None:
    number = job.payload.decode()
    if number == "2":
        after = desk.report.fail(job, Failure(("example.Smudge",), "the ink was wet"))
    else:
        after = desk.report.finish(job, result=f"page {number}".encode())
    print(f"page {number}: {after.state.name}")


def main() -> None:
    with TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/jobs.db")
        desk = Desk(store)
        placed = desk.intake.enqueue(Job("reports"))
        while jobs := desk.dispatch.claim(["reports", "pages"], limit=10):
            for job in jobs:
                (report if job.queue == "reports" else page)(desk, job)
        print(f"the report is {store.get([placed.id])[placed.id].state.name}")
        store.close()


if __name__ == "__main__":
    main()
