"""`stoker move`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import click

from stoker.desk.moving import Move, Step
from stoker.doors.cli import show
from stoker.doors.cli.command import Command, json_option
from stoker.doors.cli.place import check_shared
from stoker.errors import BadInput, StoreUnavailable
from stoker.kernel.duration import micros
from stoker.store.open import is_there, open_store
from stoker.store.urls import shown


@click.command(
    cls=Command,
    examples=[
        "stoker move sqlite:///jobs.db postgresql://localhost/jobs",
        "stoker move sqlite:///jobs.db redis://localhost --grace 5m",
        "stoker move sqlite:///jobs.db redis://localhost --abandon",
    ],
)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option(
    "--grace",
    default="1m",
    show_default=True,
    metavar="TIME",
    help="How long what runs may go on when the old store closes.",
)
@click.option("--abandon", is_flag=True, help="Give up a move that was begun; FROM works again.")
@json_option
def move(source: str, target: str, *, grace: str, abandon: bool, as_json: bool) -> None:
    """Move all jobs, schedules and settings from one store to another, ids included.

    Producers and workers go on with the old store while its jobs are copied. Then it closes: it
    takes no more jobs, gives none out, and tells everybody where they have gone. When what ran has
    ended and the rest is copied the new store opens; start the workers there. Interrupted anywhere,
    run it again: nothing is lost and nothing is doubled.
    """
    for url in (source, target):
        check_shared(url)
    if source == target:
        raise BadInput("FROM and TO are the same store")
    if not is_there(source):
        raise StoreUnavailable(f"there is no store at {shown(source)} to move from")
    seconds = micros(grace) / 1e6
    with ExitStack() as stack:
        stores = [stack.enter_context(closing(open_store(url))) for url in (source, target)]
        moving = Move(*stores, origin=shown(source), destination=shown(target))
        if abandon:
            moving.abandon()
            _tell(as_json, f"{shown(source)} works again", moved=0, abandoned=True)
            return
        with _progress(as_json) as along:
            moved = moving.run(grace=seconds, along=along)
    _tell(
        as_json,
        f"{moved:,} job{'s' * (moved != 1)} moved to {shown(target)}; start the workers there",
        moved=moved,
        abandoned=False,
    )


def _tell(as_json: bool, text: str, **facts: object) -> None:
    if as_json:
        show.document(facts)
    else:
        click.echo(text)


@contextmanager
def _progress(as_json: bool) -> Iterator[Callable[[Step], None]]:
    """A bar for each phase, on the terminal's error output; none for programs."""
    if as_json:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console) as progress:
        phases: dict[str, int] = {}

        def along(step: Step) -> None:
            if step.what not in phases:
                phases[step.what] = progress.add_task(step.what, total=None)
            task = progress.tasks[phases[step.what]]
            progress.update(task.id, completed=step.done, total=step.total)

        yield along
