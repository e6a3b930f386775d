"""A report makes its pages, waits for them, and is put together when the last one is done.

python examples/family.py
"""

from __future__ import annotations

from stoker import State, Stoker, current
from stoker.store import Filter

app = Stoker("memory:")


@app.task
def page(number: int) -> str:
    if number == 2:
        raise ValueError("the ink was wet")
    return f"page {number}"


@app.task
def report(pages: int) -> str:
    """Runs twice: first it makes the pages, later it binds them."""
    job = current().job
    if not (job.open_children or job.finished_children or job.failed_children):
        made = current().spawn([page.call(number + 1) for number in range(pages)])
        print(f"the report has made {len(made)} pages and lets them run")
        return "not bound yet"
    children = app.desk.store.find(Filter(parent_id=job.id))
    done = [app.job(child.id).result for child in children if child.state is State.FINISHED]
    print(f"{job.finished_children} pages are done and {job.failed_children} is not")
    return ", ".join(done)


def main() -> None:
    worker = app.worker()
    worker.start()
    print(report.enqueue(3).wait(timeout="30s"))
    worker.stop()
    app.close()


if __name__ == "__main__":
    main()
