"""`stoker queues`: list, pause, resume, set, purge."""

from __future__ import annotations

from collections.abc import Iterable

import click

from stoker.doors.cli import bulk, show
from stoker.doors.cli.command import Group, json_option, opened, states_option, yes_option
from stoker.doors.cli.place import Place
from stoker.doors.cli.show import Column, Ink
from stoker.doors.cli.words import jobs_text, read_settings, read_states, settings_text
from stoker.doors.forms import queue_form
from stoker.errors import NotFound
from stoker.kernel.job import WHOLE_WEIGHT, State
from stoker.kernel.queue import DEFAULTS
from stoker.store import Filter, QueueView

COLUMNS = (
    Column("queue", loose=True),
    *(Column(state.name.lower(), right=True) for state in State),
    Column("used", right=True),
    Column("settings", loose=True),
)


@click.group(
    cls=Group,
    examples=[
        "stoker queues list",
        "stoker queues pause mail",
        "stoker queues set mail capacity=5",
    ],
)
def queues() -> None:
    """List, pause, resume, set up and purge queues.

    A queue comes into being when a job or a worker names it.
    """


@queues.command("list", examples=["stoker queues list", "stoker queues list --json"])
@json_option
@opened()
def list_queues(here: Place, *, as_json: bool) -> None:
    """List the queues: their jobs by state, the places in use, and what they were told."""
    views = here.desk.store.survey()
    if as_json:
        show.lines(map(queue_form, views))
    elif views:
        show.table(COLUMNS, rows(views))
    else:
        show.note("there are no queues yet; the first job makes one")


def rows(views: Iterable[QueueView]) -> list[show.Row]:
    """Queues as rows of a table."""
    return [
        (
            view.name,
            *(show.count(view.counts[state], show.STATE_STYLES[state]) for state in State),
            f"{view.used / WHOLE_WEIGHT:g}" if view.settings.limited else "",
            Ink(settings_text(view.settings), "yellow" if view.settings.paused else "dim"),
        )
        for view in views
    ]


@queues.command(examples=["stoker queues pause mail"])
@click.argument("queue")
@opened()
def pause(here: Place, *, queue: str) -> None:
    """Let nothing of QUEUE start; what runs goes on."""
    _there(here, queue)
    here.desk.control.adjust(queue, paused=True)
    click.echo(f"the queue {queue} is paused")


@queues.command(examples=["stoker queues resume mail"])
@click.argument("queue")
@opened()
def resume(here: Place, *, queue: str) -> None:
    """Let QUEUE go on."""
    view = _there(here, queue)
    here.desk.control.adjust(queue, paused=False)
    click.echo(f"the queue {queue} goes on with {jobs_text(view.counts[State.QUEUED])}")


@queues.command(
    "set",
    examples=[
        "stoker queues set mail capacity=5 key_capacity=2",
        "stoker queues set mail keys.big-tenant=10 order=time-rank",
        "stoker queues set mail retention.finished=1h retention.failed=forever",
        "stoker queues set mail capacity=none",
    ],
)
@click.argument("queue")
@click.argument("settings", metavar="NAME=VALUE...", nargs=-1, required=True)
@opened(make=True)
def set_queue(here: Place, *, queue: str, settings: tuple[str, ...]) -> None:
    """Set up QUEUE. What is not named stays as it is, and all holds at once and for everybody.

    \b
    capacity=N            how many places its running jobs may take together
    key_capacity=N        the same for the jobs of any one key
    keys.KEY=N            an exception for one key
    order=rank-time       which due job goes first; or time-rank
    retention.STATE=TIME  how long ended jobs are kept: finished, failed, cancelled;
                          1h, 30d, 0 for not at all, forever
    paused=yes            or no
    """
    views = here.desk.store.survey([queue])
    now = read_settings(views[0].settings if views else DEFAULTS, settings)
    here.desk.control.configure(queue, now)
    click.echo(f"{queue}: {settings_text(now) or 'as usual'}")


@queues.command(
    examples=["stoker queues purge mail", "stoker queues purge mail --state failed --yes"]
)
@click.argument("queue")
@states_option
@yes_option
@opened()
def purge(here: Place, *, queue: str, states: tuple[str, ...], yes: bool) -> None:
    """Delete all jobs of QUEUE, or those in some states. Running jobs stay."""
    view = _there(here, queue)
    chosen = read_states(states) or tuple(state for state in State if state is not State.RUNNING)
    total = sum(view.counts[state] for state in chosen)
    if total:
        question = f"this deletes {jobs_text(total)} for good; type {queue} to go on"
        show.confirm_by_name(question, queue, yes=yes)
    with show.progress(f"purging {queue}", total) as advance:
        wanted = Filter(states=chosen, queue=queue)
        done, errors = bulk.everywhere(here.desk, bulk.DELETE, wanted, advance)
    bulk.tell(bulk.DELETE, done, errors)


def _there(here: Place, queue: str) -> QueueView:
    views = here.desk.store.survey([queue])
    if not views:
        names = ", ".join(view.name for view in here.desk.store.survey()) or "none"
        raise NotFound(f"there is no queue {queue!r}; there are: {names}")
    return views[0]
