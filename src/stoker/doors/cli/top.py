"""`stoker top`: queues, workers and running jobs, live."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click
import msgspec

from stoker.desk.workers import WorkerView, survey_workers
from stoker.doors.cli import queues, show, workers
from stoker.doors.cli.command import Command, json_option, opened
from stoker.doors.cli.place import Place
from stoker.doors.cli.show import Column, Ink
from stoker.doors.cli.words import clock, iso, span
from stoker.doors.forms import job_form, queue_form, worker_form
from stoker.kernel.job import ENDED, Job, State
from stoker.store import Filter, QueueView, Store

if TYPE_CHECKING:
    from rich.console import RenderableType

_REFRESH_SECONDS = 1.0
_MOST_RUNNING = 500
_SHOWN_RUNNING = 20

_JOBS = (
    Column("id", right=True),
    Column("queue", loose=True),
    Column("name", loose=True),
    Column("key", loose=True),
    Column("try", right=True),
    Column("for", right=True),
    Column("done", right=True),
    Column("worker", loose=True, style="dim"),
)


class Snapshot(msgspec.Struct, frozen=True):
    """What is seen at one moment."""

    at: int
    queues: list[QueueView]
    workers: list[WorkerView]
    running: list[Job]
    """The longest first; not more than some hundred are looked at."""

    def ended(self) -> dict[str, int]:
        """How many ended jobs each queue keeps."""
        return {view.name: sum(view.counts[state] for state in ENDED) for view in self.queues}


def snapshot(store: Store) -> Snapshot:
    """Look once."""
    running = store.find(Filter(states=(State.RUNNING,), limit=_MOST_RUNNING))
    return Snapshot(
        store.now(),
        store.survey(),
        list(survey_workers(store)),
        sorted(running, key=lambda job: job.started_at or 0),
    )


@click.command(cls=Command, examples=["stoker top", "stoker top --json", "stoker top | cat"])
@json_option
@opened()
def top(here: Place, *, as_json: bool) -> None:
    """Watch queues, workers and running jobs, once a second. Press q to leave.

    Where there is no terminal it shows what is there now, and ends.
    """
    store = here.desk.store
    if as_json:
        show.document(_form(snapshot(store)))
    elif sys.stdout.isatty() and sys.stdin.isatty():
        with suppress(KeyboardInterrupt):  # as good a way to leave as q
            _watch(store, here.shown)
    else:
        show.draw(_drawn(snapshot(store), here.shown, {}))


def _form(seen: Snapshot) -> dict[str, object]:
    return {
        "at": iso(seen.at),
        "queues": [queue_form(view) for view in seen.queues],
        "workers": [worker_form(worker) for worker in seen.workers],
        "running": [job_form(job) for job in seen.running],
    }


def _watch(store: Store, url: str) -> None:
    from rich.live import Live

    before = snapshot(store)
    with _keys() as pressed, Live(screen=True, auto_refresh=False, console=show.console()) as live:
        live.update(_drawn(before, url, {}), refresh=True)
        while not pressed(_REFRESH_SECONDS):
            seen = snapshot(store)
            live.update(_drawn(seen, url, rates(before, seen)), refresh=True)
            before = seen


def rates(before: Snapshot, after: Snapshot) -> dict[str, float]:
    """Ended jobs a second, by queue. Those that were not kept are not seen."""
    seconds = max(after.at - before.at, 1) / 1e6
    earlier = before.ended()
    grown = {name: count - earlier.get(name, 0) for name, count in after.ended().items()}
    return {name: max(0, more) / seconds for name, more in grown.items()}


@contextmanager
def _keys() -> Iterator[_Pressed]:
    """Keys as they are pressed, without Enter and without showing them."""
    import termios
    import tty

    terminal = sys.stdin.fileno()
    usual = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield _Pressed(terminal)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, usual)


class _Pressed:
    """Waits for q."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def __call__(self, seconds: float) -> bool:
        """Was it pressed before the time was up?"""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([self._terminal], [], [], left)
            if ready and os.read(self._terminal, 1) in (b"q", b"Q", b""):
                return True
        return False


def _drawn(seen: Snapshot, url: str, speed: Mapping[str, float]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    alive = sum(worker.alive for worker in seen.workers)
    head = Text.assemble(
        ("stoker", "bold"), f"  {url}  ", (f"{clock(seen.at)}  workers: {alive}", "dim")
    )
    parts: list[RenderableType] = [head, Text(), _queues(seen, speed)]
    if seen.workers:
        parts += [Text(), show.table_of(workers.COLUMNS, workers.rows(seen.workers, seen.at))]
    if seen.running:
        parts += [Text(), show.table_of(_JOBS, _rows(seen))]
    return Group(*parts)


def _queues(seen: Snapshot, speed: Mapping[str, float]) -> RenderableType:
    if not seen.queues:
        return show.table_of((Column(""),), [(Ink("no queues yet", "dim"),)])
    columns = (*queues.COLUMNS[:-1], Column("ended/s", right=True), queues.COLUMNS[-1])
    rows = [
        (*row[:-1], f"{speed[view.name]:,.1f}" if view.name in speed else "", row[-1])
        for view, row in zip(seen.queues, queues.rows(seen.queues), strict=True)
    ]
    return show.table_of(columns, rows)


def _rows(seen: Snapshot) -> list[show.Row]:
    names = {worker.session: worker.name for worker in seen.workers}
    return [
        (
            job.id,
            job.queue,
            job.name,
            job.key or "",
            job.attempt,
            span(max(0, seen.at - (job.started_at or seen.at))),
            f"{job.progress:.0%}" if job.progress else "",
            names.get(job.session or 0, ""),
        )
        for job in seen.running[:_SHOWN_RUNNING]
    ]
