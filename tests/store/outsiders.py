"""What callers with transactions of their own need, whatever their database is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stoker import Stoker
from stoker.desk import Desk
from stoker.kernel.job import State

HOUR = 3600 * 1_000_000


class Spoilt(Exception):
    """Something goes wrong in the caller's transaction."""


def queued(desk: Desk) -> int:
    """How many jobs may be claimed now or later."""
    return sum(view.counts[State.QUEUED] for view in desk.store.survey())


@contextmanager
def at_work(app: Stoker) -> Iterator[None]:
    """With a worker."""
    worker = app.worker(concurrency=2)
    worker.start()
    try:
        yield
    finally:
        worker.stop()
