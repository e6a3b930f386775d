"""A worker in Jobber's manner: one type, one job at a time, a fixed time in which to do it.

It works on the store itself, so any number of them, of servers and of recoverers share the jobs.
Tasks of the library do the same and more; this is for handlers that take JSON text and give text.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta

import msgspec

from stoker.desk import Desk
from stoker.doors.http.jobber.routes import PREFIX
from stoker.doors.http.wishes import visibility_of
from stoker.errors import LeaseLost
from stoker.kernel.job import Job
from stoker.kernel.retry import failure_of
from stoker.store.bell import Listener
from stoker.watch.recover import recover

logger = logging.getLogger("stoker.jobber")

Handle = Callable[[str], str]
"""From a payload, as JSON text, to a result; raising fails the try."""
PostResult = Callable[[str | None, Exception | None], None]
"""Told of every try: its result, or what was raised."""

_LONGEST_SLEEP = 5.0


class JobberWorker:
    """Takes jobs of one type. A job that is not done in time goes to somebody else.

    >>> from stoker import Job, open_store
    >>> desk = Desk(open_store("memory:"))
    >>> placed = desk.intake.enqueue(Job("job_queue_sum", "sum", b"[1, 2]"))
    >>> worker = JobberWorker(desk, "sum", visibility="15s", handle=lambda text: text.upper())
    >>> worker.work(), worker.work()
    (True, False)
    >>> desk.store.get([placed.id])[placed.id].result
    b'"[1, 2]"'
    """

    def __init__(
        self,
        desk: Desk,
        kind: str,
        *,
        visibility: str | int | float | timedelta,
        handle: Handle,
        post_result: PostResult = lambda result, error: None,  # noqa: ARG005
    ) -> None:
        self._desk = desk
        self._queue = PREFIX + kind.strip()
        self._visibility = visibility_of(visibility)
        self._handle = handle
        self._post_result = post_result
        self._stopping = threading.Event()
        self._ear: Listener | None = None

    def work(self) -> bool:
        """Do one job, if there is one. LeaseLost: it took too long, and is somebody else's."""
        for job in self._desk.dispatch.claim([self._queue], visibility=self._visibility):
            self._do(job)
            return True
        return False

    def _do(self, job: Job) -> None:
        try:
            result = self._handle(job.payload.decode())
        except Exception as error:  # noqa: BLE001 - whatever it is, the job goes by its policy
            self._post_result(None, error)
            self._desk.report.fail(job, failure_of(error))
        else:
            self._post_result(result, None)
            self._desk.report.finish(job, msgspec.json.encode(result))

    def run(self) -> None:
        """Work until stopped; sleeps until there is something to do, and recovers what others
        left undone."""
        store = self._desk.store
        with closing(store.bell.listen()) as ear:
            self._ear = ear
            while not self._stopping.is_set():
                try:
                    if self.work() or recover(self._desk.clerk):
                        continue
                except LeaseLost as error:
                    logger.warning("%s", error)
                    continue
                due = self._desk.dispatch.opening.next_due([self._queue])
                seconds = _LONGEST_SLEEP if due is None else (due - store.now()) / 1e6
                ear.wait(min(max(seconds, 0.0), self._visibility / 1e6, _LONGEST_SLEEP))

    def stop(self) -> None:
        """End after the job in hand."""
        self._stopping.set()
        if self._ear is not None:
            self._ear.interrupt()
