"""An order waits for its payment, which another process reports; meanwhile no worker is held.

python examples/answer_from_outside.py
"""

from __future__ import annotations

import multiprocessing
from tempfile import TemporaryDirectory

from stoker import Desk, Job, open_store
from stoker.kernel.outcome import Awaits

HOUR = 3600 * 1_000_000


def bank(url: str) -> None:
    """What a webhook would do."""
    store = open_store(url)
    for order in (4711, 4712):
        answer = Desk(store).control.reply(f"payment {order}", b"%d coins" % (order - 4700))
        print(f"the bank has an answer for order {order}: {answer.value}", flush=True)
    store.close()


def handle(desk: Desk, job: Job) -> None:
    order = job.payload.decode()
    if job.reply is None:
        after = desk.report.wait(job, Awaits(f"payment {order}", timeout=HOUR))
        print(f"order {order} is {after.state.name} {after.waits_for or ''}".rstrip(), flush=True)
    else:
        desk.report.finish(job, result=job.reply)
        print(f"order {order} was paid with {job.reply.decode()}", flush=True)


def work_off(desk: Desk) -> None:
    while jobs := desk.dispatch.claim(["orders"]):
        handle(desk, jobs[0])


def main() -> None:
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/jobs.db"
        store = open_store(url)
        desk = Desk(store)
        desk.intake.enqueue(Job("orders", payload=b"4711"))
        work_off(desk)
        process = multiprocessing.get_context("spawn").Process(target=bank, args=(url,))
        process.start()
        process.join()
        work_off(desk)
        print("the answer for the next order came before its question")
        desk.intake.enqueue(Job("orders", payload=b"4712"))
        work_off(desk)
        store.close()


if __name__ == "__main__":
    main()
