"""`stoker queues`: list, show, pause, resume, set, purge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import click

from stoker.doors.cli import bulk, show
from stoker.doors.cli.command import Group, json_option, opened, states_option, yes_option
from stoker.doors.cli.place import Place
from stoker.doors.cli.settings import changed, settings_text, settings_words
from stoker.doors.cli.show import Column, Ink
from stoker.doors.cli.words import jobs_text, read_states
from stoker.doors.forms import ThrottlerForm, queue_form, queue_in_full
from stoker.errors import NotFound
from stoker.kernel.job import WHOLE_WEIGHT, State
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
        "stoker queues show mail",
        "stoker queues pause mail",
        "stoker queues set mail capacity=5",
    ],
)
def queues() -> None:
    """List, show, pause, resume, set up and purge queues.

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


def rows(views: Sequence[QueueView]) -> list[show.Row]:
    """Queues as rows of a table."""
    used = _used(views)
    return [
        (
            view.name,
            *(show.count(view.counts[state], show.STATE_STYLES[state]) for state in State),
            _places(used[view.name]) if view.settings.limited else "",
            Ink(settings_text(view.settings), "yellow" if view.settings.paused else "dim"),
        )
        for view in views
    ]


def _used(views: Iterable[QueueView]) -> Counter[str]:
    """What is used of each queue's places: by its own jobs, and by those of queues within it."""
    used: Counter[str] = Counter()
    for view in views:
        used[view.name] += view.used
        if view.settings.within is not None:
            used[view.settings.within] += view.used
    return used


def _places(units: int) -> str:
    return f"{units / WHOLE_WEIGHT:g}"


@queues.command("show", examples=["stoker queues show mail", "stoker queues show mail --json"])
@click.argument("queue")
@json_option
@opened()
def show_queue(here: Place, *, queue: str, as_json: bool) -> None:
    """Show QUEUE: its jobs by state, the places in use, what it was told, and what is known of its
    throttler, line by line."""
    view = _there(here, queue)
    if as_json:
        show.document(queue_in_full(view, here.desk.store))
        return
    views = here.desk.store.survey()
    inner = [each.name for each in views if each.settings.within == queue]
    show.facts(
        [
            ("queue", queue),
            *(
                (state.name, show.count(view.counts[state], show.STATE_STYLES[state]))
                for state in State
            ),
            ("used", _places(_used(views)[queue])),
            *((name, text) for name, _, text in _said(view)),
            *([("within it", ", ".join(inner))] if inner else []),
            *_throttler(queue_in_full(view, here.desk.store).throttler),
        ]
    )


def _throttler(known: ThrottlerForm | None) -> list[tuple[str, str]]:
    if known is None:
        return []
    facts = {"throttler fails": known.error, "throttler's state": known.state}
    return [(name, str(fact)) for name, fact in facts.items() if fact is not None]


def _said(view: QueueView) -> list[tuple[str, str, str]]:
    return [word.partition("=") for word in settings_words(view.settings)]


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
        'stoker queues set api rate="100 per minute" key_rate=5/s key_rates.big-tenant=20/s',
        "stoker queues set pictures tasks.resize=2 task_rates.resize=10/s",
        "stoker queues set train within=gpu",
        "stoker queues set mail shares.east=40 shares.west=60 lend=yes",
        "stoker queues set mail fair=yes turns.gold=3",
        "stoker queues set mail windows='mon-fri 08:00-18:00 in Europe/Berlin'",
        "stoker queues set mail maintenance='sun 02:00-04:00, drain 30m'",
        "stoker queues set mail capacity=none keys.big-tenant=none rate=none ageing=none",
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
    tasks.TASK=N          the same for the jobs of one task
    rate=RATE             how much may start in a time: 100/m, 5 per 10s; with ", fixed" by the
                          clock, with ", burst 50" from a bucket
    key_rate=RATE         the same for the jobs of any one key
    key_rates.KEY=RATE    an exception for one key
    task_rates.TASK=RATE  the same for the jobs of one task
    within=QUEUE          the limits and the pause of another queue hold for this one, too
    shares.KEY=PERCENT    how much of the capacity a key may have
    lend=yes              a key may have more while nobody else wants it; or no
    fair=yes              keys take turns; or no
    turns.KEY=N           how many turns a key has at a time
    ageing=TIME           who has waited so long goes before who is one rank better
    order=rank-time       which due job goes first; or time-rank
    retention.STATE=TIME  how long ended jobs are kept: finished, failed, cancelled;
                          1h, 30d, 0 for not at all, forever
    paused=yes            or no
    windows=HOURS         when its jobs may start: 22:00-06:00, mon-fri 08:00-18:00 in Europe/Berlin
    maintenance=TIMES     when they may not: sun 02:00-04:00, drain 30m; for once: 2027-03-28 02:00
                          to 2027-03-28 04:00; several with a semicolon between them
    throttled=no          start jobs without the throttler that the code of an app has; or yes

    A limit is taken away with none: capacity=none, keys.KEY=none, and keys=none for all keys.
    """
    now = here.desk.control.settings.change(queue, lambda before: changed(before, settings))
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
