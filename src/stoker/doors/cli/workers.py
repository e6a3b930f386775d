"""`stoker workers`."""

from __future__ import annotations

from collections.abc import Iterable

import click

from stoker.desk.workers import MOST_COUNTED, WorkerView, survey_workers
from stoker.doors.cli import show
from stoker.doors.cli.command import Command, json_option, opened
from stoker.doors.cli.place import Place
from stoker.doors.cli.show import Column, Ink
from stoker.doors.cli.words import distance
from stoker.doors.forms import worker_form

COLUMNS = (
    Column("worker", loose=True),
    Column("host", loose=True),
    Column("pid", right=True),
    Column("queues", loose=True),
    Column("jobs", right=True),
    Column("up since"),
    Column("state"),
)


@click.command(cls=Command, examples=["stoker workers", "stoker workers --json"])
@json_option
@opened()
def workers(here: Place, *, as_json: bool) -> None:
    """Who is at work: each worker's name, machine, queues and jobs in hand.

    A worker is alive while its heartbeats come. A dead one stays on the list until its jobs have
    been recovered.
    """
    found = survey_workers(here.desk.store)
    if as_json:
        show.lines(map(worker_form, found))
    elif found:
        show.table(COLUMNS, rows(found, here.desk.store.now()))
    else:
        show.note("no worker is on the books; start one with `stoker worker module:app`")


def rows(found: Iterable[WorkerView], now: int) -> list[show.Row]:
    """Workers as rows of a table."""
    return [
        (
            worker.name,
            worker.info.host,
            worker.info.pid or "",
            ",".join(worker.info.queues or ()),
            _in_hand(worker),
            distance(worker.started_at, now),
            Ink("alive", "green") if worker.alive else Ink("dead", "red"),
        )
        for worker in found
    ]


def _in_hand(worker: WorkerView) -> str:
    held = f"{MOST_COUNTED}+" if worker.held == MOST_COUNTED else str(worker.held)
    places = worker.info.concurrency
    return held if places is None else f"{held} of {places}"
