"""`stoker run`: a worker for development, which tells about each job."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from datetime import datetime
from types import FrameType

import click

from stoker.client import Stoker
from stoker.doors.cli import show
from stoker.doors.cli.command import Command
from stoker.doors.cli.show import Ink
from stoker.doors.cli.words import first_line, span
from stoker.doors.cli.worker import (
    LOG_FORMAT,
    at_work,
    concurrency_option,
    grace_option,
    name_option,
    queues_option,
    served,
    store_option,
)
from stoker.kernel.job import Job
from stoker.kernel.outcome import Awaits, Crashed, Failed, Outcome, Released
from stoker.store.urls import shown
from stoker.worker.context import Context
from stoker.worker.performing import Middleware

_LONGEST_RESULT = 60


@click.command(
    cls=Command,
    examples=["stoker run shop:app", "stoker run shop:app --queues mail --concurrency 1"],
)
@click.argument("app_ref", metavar="MODULE:APP", envvar="STOKER_APP")
@queues_option
@concurrency_option(4)
@grace_option(5.0)
@name_option
@store_option
def run(
    *,
    app_ref: str,
    queues: str | None,
    concurrency: int,
    grace: float,
    name: str,
    store: str | None,
) -> None:
    """Work on the jobs of an app, in this process, and tell about each. Ctrl-C ends it.

    For development. In production use `stoker worker`, which survives a process that dies.
    """
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    app = at_work(app_ref, store)
    app.middleware.append(JobLog())
    chosen = served(app, app_ref, queues)
    worker = app.worker(chosen, concurrency=concurrency, grace=grace, name=name)
    stop = _StopSignal()
    _greet(app, app_ref, chosen)
    worker.start()
    stop.wait()
    show.note("ending; Ctrl-C again to end at once")
    worker.stop()
    app.close()


def _greet(app: Stoker, app_ref: str, queues: tuple[str, ...]) -> None:
    tasks = ", ".join(sorted(task.name for task in app.tasks)) or "none"
    show.note(f"{app_ref} serves {', '.join(queues)} of {shown(app.url)}; Ctrl-C ends it")
    show.note(f"tasks: {tasks}")


class _StopSignal:
    """The first SIGTERM or SIGINT is heard, the second does what it always does."""

    def __init__(self) -> None:
        self._heard = threading.Event()
        self._usual = {
            number: signal.signal(number, self._hear) for number in (signal.SIGTERM, signal.SIGINT)
        }

    def _hear(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        for known, usual in self._usual.items():
            signal.signal(known, usual)
        self._heard.set()

    def wait(self) -> None:
        """Until the first signal."""
        self._heard.wait()


class JobLog(Middleware):
    """Tells when a job starts, and what came of it."""

    in_worker = True

    def __init__(self) -> None:
        self._begun: dict[int, float] = {}

    def before(self, context: Context) -> None:
        """It starts."""
        job = context.job
        self._begun[job.id] = time.monotonic()
        again = f"  try {job.attempt}" if job.attempt > 1 else ""
        _tell(Ink("started ", "cyan"), job, again)

    def after(self, context: Context, outcome: Outcome) -> None:
        """It is over, for now."""
        job = context.job
        took = (time.monotonic() - self._begun.pop(job.id, time.monotonic())) * 1e6
        word, said = _told(outcome)
        _tell(word, job, f"  {span(took)}", said)


def _told(outcome: Outcome) -> tuple[Ink, str]:
    if isinstance(outcome, Failed):
        return Ink("failed  ", "red"), f"  {first_line(outcome.failure.message)}"
    if isinstance(outcome, Crashed):
        return Ink("crashed ", "red"), f"  {outcome.evidence}"
    if isinstance(outcome, Released):
        return Ink("put off ", "yellow"), f"  {first_line(outcome.error)}"
    if isinstance(outcome, Awaits):
        return Ink("waits   ", "yellow"), f"  for the reply {outcome.key!r}"
    result = (outcome.result or b"").decode("utf-8", "replace")
    short = result if len(result) <= _LONGEST_RESULT else f"{result[:_LONGEST_RESULT]}…"
    return Ink("finished", "green"), f"  → {short}" if short else ""


def _tell(word: Ink, job: Job, *more: str) -> None:
    at = datetime.now().astimezone().strftime("%H:%M:%S")
    show.line(Ink(f"{at}  ", "dim"), word, f"  {job.id:>5}  {job.name}", Ink("".join(more), "dim"))
    sys.stdout.flush()
