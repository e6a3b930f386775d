"""At the desk: one tenant floods the queue, the others do not notice. An alarm passes them all.

python examples/desk_limits.py
"""

from __future__ import annotations

from collections import Counter
from tempfile import TemporaryDirectory

from stoker import Desk, Job, QueueSettings, open_store
from stoker.kernel.outcome import Finished


def main() -> None:
    with TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/jobs.db")
        desk = Desk(store)
        desk.control.configure("api", QueueSettings(key_capacity=1, keys={"bob": 2}))
        desk.intake.enqueue_many([Job("api", key="ann") for _ in range(10_000)])
        desk.intake.enqueue_many([Job("api", key=key) for key in ("bob", "cleo") * 3])
        print("10000 jobs of ann are ahead of 3 of bob and 3 of cleo")
        for number in (1, 2, 3):
            if number == 2:
                desk.intake.enqueue(Job("api", name="alarm", key="ann", weight=0))
                print("an alarm of weight 0 comes in")
            jobs = desk.dispatch.claim(["api"], limit=100)
            shares = Counter(job.name or f"{job.key}'s" for job in jobs)
            shown = ", ".join(f"{count} {whose}" for whose, count in sorted(shares.items()))
            print(f"claim {number}: {shown}")
            desk.report.many([(job, Finished()) for job in jobs])
        store.close()


if __name__ == "__main__":
    main()
