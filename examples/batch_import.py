"""Many rows at once, but never two of the same customer at a time.

python examples/batch_import.py
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import chdir
from tempfile import TemporaryDirectory

from stoker import Stoker

CUSTOMERS, ROWS = ("ann", "bob", "cleo"), 300

app = Stoker("sqlite:///jobs.db")
at_work = Counter[str]()
most = Counter[str]()


@app.task(queue="import")
async def import_row(customer: str, row: int) -> int:
    at_work[customer] += 1
    most[customer] = max(most[customer], at_work[customer])
    await asyncio.sleep(0.001)
    at_work[customer] -= 1
    return row


def main() -> None:
    app.configure("import", key_capacity=1)
    rows = [(CUSTOMERS[row % len(CUSTOMERS)], row) for row in range(ROWS)]
    jobs = app.enqueue_many(
        [import_row.options(key=customer).call(customer, row) for customer, row in rows]
    )
    print(f"{len(jobs)} rows are on the disk, in one commit")
    worker = app.worker(concurrency=20)
    worker.start()
    done = [job.wait(timeout="1m") for job in jobs]
    worker.stop()
    app.close()
    print(f"{len(done)} rows are imported, each once: {sorted(done) == list(range(ROWS))}")
    for customer in CUSTOMERS:
        print(f"of {customer}'s rows at most {most[customer]} at a time")


if __name__ == "__main__":
    with TemporaryDirectory() as folder, chdir(folder):
        main()
