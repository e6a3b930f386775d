"""Tenants take turns, and a partner's API gets no more calls than it allows. One asks why he waits.

python examples/tenants.py
"""

from __future__ import annotations

from contextlib import chdir
from tempfile import TemporaryDirectory

from stoker import Stoker

app = Stoker("sqlite:///jobs.db")
served: list[str] = []


@app.task(queue="partner", rate="10 per second, burst 6")
def call_partner(tenant: str) -> None:
    served.append(tenant)


def main() -> None:
    app.configure("partner", fair=True, turns={"gold": 2}, capacity=1)
    orders = {"ann": 8, "bob": 2, "gold": 6}
    calls = [
        call_partner.options(key=tenant).call(tenant)
        for tenant, count in orders.items()
        for _ in range(count)
    ]
    jobs = app.enqueue_many(calls)
    print(f"{len(jobs)} calls wait, ann's first")
    worker = app.worker()  # brings the task's rate into the settings of its queue
    for blocker in jobs[8].explain().blockers:
        print(f"bob waits: {blocker.text}")
    (rate,) = app.configure("partner").task_rates.values()
    print(f"of the task no more may start than {rate}")
    worker.start()
    for job in jobs:
        job.wait(timeout="1m")
    worker.stop()
    app.close()
    print(f"the first eight: {', '.join(served[:8])}")


if __name__ == "__main__":
    with TemporaryDirectory() as folder, chdir(folder):
        main()
