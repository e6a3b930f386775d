"""`stoker worker`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable

import click

from stoker.client import Stoker
from stoker.doors.cli import place
from stoker.doors.cli.command import Command, FiniteRange, Function
from stoker.errors import BadInput
from stoker.kernel.glob import glob_matches
from stoker.store.open import is_private
from stoker.store.urls import shown
from stoker.worker.worker import DEFAULT_TTL, WorkerSettings

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"

queues_option = click.option(
    "--queues",
    metavar="A,B",
    help="The queues to serve, GLOB patterns allowed; by default those of all tasks.",
)
name_option = click.option(
    "--name", metavar="NAME", default="", help="What to call it; by default host and pid."
)
store_option = click.option(
    "--store", metavar="URL", help="The store, for an app that names none itself."
)


def concurrency_option(default: int) -> Callable[[Function], Function]:
    """How many jobs at once."""
    return click.option(
        "--concurrency",
        metavar="N",
        default=default,
        show_default=True,
        help="Jobs at once in a process.",
    )


def grace_option(default: float) -> Callable[[Function], Function]:
    """How much time there is at the end."""
    return click.option(
        "--grace",
        metavar="SECONDS",
        default=default,
        show_default=True,
        help="Seconds that running jobs get at the end.",
    )


@click.command(
    cls=Command,
    examples=[
        "stoker worker shop:app",
        "stoker worker shop:app --queues mail,report-* --concurrency 50",
        "stoker worker shop:app --processes 4 --name batch --grace 120",
        "stoker worker shop:app --autoscale 1:8",
    ],
)
@click.argument("app_ref", metavar="MODULE:APP", envvar="STOKER_APP")
@queues_option
@concurrency_option(10)
@click.option(
    "--processes",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many processes.",
)
@click.option(
    "--autoscale",
    metavar="MIN:MAX",
    help="As many processes as the work needs, instead of a fixed number.",
)
@click.option(
    "--within",
    metavar="SECONDS",
    type=FiniteRange(min=0.1),
    default=10.0,
    show_default=True,
    help="With --autoscale: in how long the work that waits should be done.",
)
@click.option(
    "--ttl",
    metavar="SECONDS",
    default=DEFAULT_TTL / 1e6,
    show_default=True,
    help="Seconds without a heartbeat after which a worker counts as dead.",
)
@grace_option(30.0)
@name_option
@store_option
def worker(
    *,
    app_ref: str,
    queues: str | None,
    processes: int,
    autoscale: str | None,
    within: float,
    store: str | None,
    **settings: float | str,
) -> None:
    """Work on the jobs of an app until SIGTERM or Ctrl-C.

    The first signal lets running jobs end within the grace period and gives the rest back; the
    second ends at once. A process that dies is replaced, and its jobs run again.
    """
    from stoker.fleet.autoscale import Autoscaler, read_range
    from stoker.fleet.supervisor import Supervisor

    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    app = at_work(app_ref, store)
    if is_private(app.url):
        raise BadInput(f"the jobs of {app_ref} are in memory:, where no worker process sees them")
    chosen = WorkerSettings(served(app, app_ref, queues), **settings)  # type: ignore[arg-type]
    scale = None
    if autoscale is not None:
        least, most = read_range(autoscale)
        scale = Autoscaler(least, most, concurrency=chosen.concurrency, within=within)
    sys.exit(Supervisor(app_ref, chosen, processes, scale).run())


def at_work(app_ref: str, store: str | None) -> Stoker:
    """The app, which its worker processes will load again: so its store must be its own choice."""
    if store is not None:
        os.environ["STOKER_STORE"] = store
    app = place.load(app_ref)
    if store not in (None, app.url):
        raise BadInput(f"{app_ref} names its store itself ({shown(app.url)}); leave out --store")
    return app


def served(app: Stoker, app_ref: str, queues: str | None) -> tuple[str, ...]:
    """The queues that are named, else those of all tasks; a doubt about them is told."""
    named = [name.strip() for name in (queues or "").split(",") if name.strip()]
    if queues is not None and not named:
        raise BadInput("--queues names no queue; leave it out for those of all tasks")
    chosen = tuple(named or app.tasks.queues() or ["default"])
    doubt = _doubt(app, app_ref, chosen)
    if doubt:
        click.echo(f"stoker: warning: {doubt}", err=True)
    return chosen


def _doubt(app: Stoker, app_ref: str, chosen: tuple[str, ...]) -> str:
    """Nothing wrong, but hardly what was meant: the jobs would all be put off."""
    theirs = app.tasks.queues()
    if not theirs:
        return f"{app_ref} has no tasks; import the modules that have them beside it"
    if not any(glob_matches(pattern, queue) for pattern in chosen for queue in theirs):
        return f"no task of {app_ref} is for {', '.join(chosen)}; theirs: {', '.join(theirs)}"
    return ""
