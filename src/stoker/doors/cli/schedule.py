"""`stoker schedule`: list, preview, pause, resume, run."""

from __future__ import annotations

from contextlib import closing, suppress

import click

from stoker.desk.schedules import Schedule
from stoker.doors.cli import place, show
from stoker.doors.cli.command import Group, json_option, opened
from stoker.doors.cli.place import Place
from stoker.doors.cli.show import Column, Ink
from stoker.doors.cli.words import both, clock, distance, iso
from stoker.doors.forms import schedule_form
from stoker.errors import BadInput, NotFound
from stoker.kernel.job import Job
from stoker.kernel.policy import Policy
from stoker.store.clock import wall_clock
from stoker.store.open import is_there

COLUMNS = (
    Column("schedule", loose=True),
    Column("repeats", loose=True),
    Column("next run"),
    Column("queue", loose=True),
    Column("job", right=True),
    Column("state"),
)


@click.group(
    cls=Group,
    examples=[
        "stoker schedule list",
        'stoker schedule preview "cron 0 5 * * mon-fri in Europe/Berlin"',
        "stoker schedule pause shop.report",
    ],
)
def schedule() -> None:
    """List, preview, pause, resume and run schedules: jobs that repeat.

    A schedule is called after its task; one that has none, by its unique key or its job's id.
    """


@schedule.command("list", examples=["stoker schedule list", "stoker schedule list --json"])
@json_option
@opened()
def list_schedules(here: Place, *, as_json: bool) -> None:
    """List the schedules: how they repeat, and when they run next."""
    now = here.desk.store.now()
    found = here.desk.schedules.all()
    if as_json:
        show.lines(schedule_form(each, now) for each in found)
    elif found:
        show.table(COLUMNS, [_row(each, now) for each in found])
    else:
        show.note('nothing repeats here; give a task repeat="every 5m" and start a worker')


def _row(it: Schedule, now: int) -> show.Row:
    if it.paused:
        return (it.name, it.repeat, "", it.job.queue, "", Ink("paused", "yellow"))
    at = it.upcoming(1, now=now)[0]
    return (
        it.name,
        it.repeat,
        distance(at, now),
        it.job.queue,
        it.job.id,
        show.state(it.job.state),
    )


@schedule.command(
    examples=[
        'stoker schedule preview "every 90m"',
        'stoker schedule preview "cron 0 5 * * mon-fri in Europe/Berlin" -n 5',
        "stoker schedule preview shop.report --app shop:app",
    ]
)
@click.argument("text", metavar="TEXT_OR_NAME")
@click.option(
    "-n",
    "count",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="How many runs.",
)
@click.option("--store", metavar="URL", help="The store, to look for a schedule of that name.")
@click.option(
    "--app",
    "app_ref",
    metavar="MODULE:APP",
    envvar="STOKER_APP",
    help="The app, to look for a schedule of that name; or STOKER_APP.",
)
@json_option
def preview(
    *, text: str, count: int, store: str | None, app_ref: str | None, as_json: bool
) -> None:
    """When a repeat would run, or a schedule will: if each run starts on time and takes no time."""
    now = wall_clock()
    runs = _previewed(text, store, app_ref).upcoming(count, now=now)
    if as_json:
        show.lines({"at": iso(at)} for at in runs)
        return
    show.table(
        (Column("run", right=True), Column("at"), Column("", style="dim")),
        [(number, clock(at), distance(at, now)) for number, at in enumerate(runs, start=1)],
    )


def _previewed(text: str, store: str | None, app_ref: str | None) -> Schedule:
    try:
        return _to_be(text, Policy(repeat=text))
    except BadInput as unreadable:
        found = _named(text, store, app_ref)
        if found is None:
            raise BadInput(f"no schedule is called {text!r}; and {unreadable}") from None
        return found


def _named(name: str, store: str | None, app_ref: str | None) -> Schedule | None:
    """The schedule in the store, or else what the app's task will make it; None: neither."""
    try:
        here = place.chosen(store, app_ref)
    except BadInput:
        if store is None and app_ref is None:
            return None  # nobody spoke of a store
        raise
    with closing(here):
        if is_there(here.url):
            with suppress(NotFound):
                return here.desk.schedules.get(name)
        task = None if here.app is None else here.app.tasks.get(name)
    if task is None or task.policy.repeat is None:
        return None
    return _to_be(name, task.policy)


def _to_be(name: str, policy: Policy) -> Schedule:
    """A schedule that does not go yet, as if it were paused."""
    return Schedule(name, Job("", policy=policy), paused=True)


@schedule.command(examples=["stoker schedule pause shop.report"])
@click.argument("name")
@opened()
def pause(here: Place, *, name: str) -> None:
    """Let there be no further runs of the schedule NAME; one that is going on may end."""
    found = here.desk.schedules.pause(name)
    click.echo(f"the schedule {found.name} is paused")


@schedule.command(examples=["stoker schedule resume shop.report"])
@click.argument("name")
@opened()
def resume(here: Place, *, name: str) -> None:
    """Let the schedule NAME go on, from now."""
    now = here.desk.store.now()
    found = here.desk.schedules.resume(name)
    click.echo(
        f"the schedule {found.name} goes on; next run {both(found.upcoming(1, now=now)[0], now)}"
    )


@schedule.command(examples=["stoker schedule run shop.report"])
@click.argument("name")
@opened()
def run(here: Place, *, name: str) -> None:
    """Run the schedule NAME once, now, beside its usual runs."""
    placed = here.desk.schedules.run(name)
    click.echo(f"job {placed.id} runs {name} once")
