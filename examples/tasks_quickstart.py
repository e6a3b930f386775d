"""Tasks, a worker and some jobs, all in one program: the shortest useful one.

python examples/tasks_quickstart.py

Usually the tasks stand in a module of their own, and `stoker worker tasks:app` runs them.
"""

from __future__ import annotations

import asyncio
from contextlib import chdir
from tempfile import TemporaryDirectory

from stoker import JobFailed, Stoker, current, fixed

app = Stoker("sqlite:///jobs.db")  # opened when it is first needed


@app.task(queue="mail", retry=fixed("50ms", limit=3))
def welcome(name: str) -> str:
    if current().attempt == 1:
        raise ConnectionError("the mail server is asleep")
    return f"Welcome, {name}, in try {current().attempt}!"


@app.task
async def measure(pages: list[str]) -> int:
    await asyncio.sleep(0.01)
    return sum(len(page) for page in pages)


@app.task
def divide(a: int, b: int) -> float:
    return a / b


def main() -> None:
    worker = app.worker()
    worker.start()
    job = welcome.enqueue("ann")
    print(f"job {job.id} is on the disk")
    print(job.wait(timeout="30s"))
    print(measure.options(delay="100ms").enqueue(["a page", "another"]).wait(timeout="30s"))
    try:
        divide.enqueue(1, 0).wait(timeout="30s")
    except JobFailed as error:
        print(error)
    worker.stop()
    app.close()


if __name__ == "__main__":
    with TemporaryDirectory() as folder, chdir(folder):
        main()
