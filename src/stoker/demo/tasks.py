"""The app of the demo: what there is to do."""

from __future__ import annotations

import asyncio
import logging
import time

from stoker import Stoker, current, fixed

PAGES, FRAMES = 4, 30

app = Stoker()  # $STOKER_STORE says where the jobs are kept

# The screen belongs to the show, which tells of its own accord when a worker is lost.
logging.getLogger("stoker").addHandler(logging.NullHandler())


@app.task(name="letter", queue="letters", retry=fixed("300ms", limit=2))
def letter(number: int) -> str:
    """Some letters fail at first, and some always."""
    time.sleep(0.01)
    if number % 60 == 59:
        raise ConnectionError("nobody lives at this address")
    if number % 12 == 7 and current().attempt == 1:
        raise ConnectionError("the post office is closed")
    return "delivered"


@app.task(name="order", queue="orders")
async def order(item: str) -> str:
    """Enqueued with the tenant as its key, of which one job may run at a time."""
    await asyncio.sleep(0.03)
    return f"{item} is packed"


@app.task(name="report", queue="reports")
def report() -> str:
    """Makes its pages, and runs again when they are done."""
    context = current()
    if not (context.job.open_children or context.job.finished_children):
        context.spawn([page.call(number) for number in range(PAGES)])
    return f"{context.job.finished_children} pages"


@app.task(name="page", queue="pages")
def page(number: int) -> str:
    """A page of a report."""
    time.sleep(0.05)
    return f"page {number}"


@app.task(name="film", queue="films")
def film(title: str) -> str:
    """Takes its time, tells how far it is, and stops when it is asked to."""
    context = current()
    for frame in range(FRAMES):
        context.check()
        time.sleep(0.1)
        context.progress(frame / FRAMES)
    return f"{title} is cut"


@app.task(name="pulse", queue="pulse", repeat="every 1s")
def pulse(beats: int = 0) -> None:
    """Carries its count from run to run."""
    current().update({"beats": beats + 1})
