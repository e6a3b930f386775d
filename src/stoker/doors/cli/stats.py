"""`stoker stats`."""

from __future__ import annotations

from collections import Counter

import click

from stoker.desk.workers import WorkerView, survey_workers
from stoker.doors.cli import show
from stoker.doors.cli.command import Command, json_option, opened
from stoker.doors.cli.place import Place
from stoker.doors.cli.words import both, iso
from stoker.kernel.job import State
from stoker.store import QueueView


@click.command(
    cls=Command, examples=["stoker stats", "stoker stats --store sqlite:///jobs.db --json"]
)
@json_option
@opened()
def stats(here: Place, *, as_json: bool) -> None:
    """All jobs in numbers: how many there are in each state, and who is at work."""
    store = here.desk.store
    views, workers, now = store.survey(), survey_workers(store), store.now()
    next_due = store.next_due([view.name for view in views])
    if as_json:
        show.document(_form(here.shown, views, workers, now, next_due))
        return
    alive = sum(worker.alive for worker in workers)
    paused = [view.name for view in views if view.settings.paused]
    show.facts(
        [
            ("store", here.shown),
            ("queues", f"{len(views)}" + (f", paused: {', '.join(paused)}" if paused else "")),
            (
                "workers",
                f"{alive} alive" + (f", {len(workers) - alive} dead" * (alive < len(workers))),
            ),
            ("next due", "nothing" if next_due is None else both(next_due, now)),
            ("", ""),
            *(
                (state.name, show.count(total, show.STATE_STYLES[state]))
                for state, total in totals(views).items()
            ),
        ]
    )


def totals(views: list[QueueView]) -> dict[State, int]:
    """How many jobs there are in each state, over all queues."""
    summed = sum((Counter(view.counts) for view in views), Counter[State]())
    return {state: summed[state] for state in State}


def _form(
    url: str, views: list[QueueView], workers: list[WorkerView], now: int, next_due: int | None
) -> dict[str, object]:
    alive = sum(worker.alive for worker in workers)
    return {
        "store": url,
        "at": iso(now),
        "queues": len(views),
        "jobs": {state.name: total for state, total in totals(views).items()},
        "workers": {"alive": alive, "dead": len(workers) - alive},
        "next_due": iso(next_due),
    }
