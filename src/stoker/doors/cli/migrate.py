"""`stoker migrate`."""

from __future__ import annotations

import click

from stoker.doors.cli import show
from stoker.doors.cli.command import Command, json_option, opened
from stoker.doors.cli.place import Place
from stoker.store.finding import Checkable


@click.command(cls=Command, examples=["stoker migrate", "stoker migrate --store sqlite:///jobs.db"])
@json_option
@opened(make=True)
def migrate(here: Place, *, as_json: bool) -> None:
    """Make the store if there is none, and bring its schema up to date.

    Whatever opens a store does the same; this is for doing it by itself, before a deployment.
    """
    store = here.desk.store
    before, after = store.migrated if isinstance(store, Checkable) else (0, 0)
    if as_json:
        show.document({"store": here.shown, "from": before, "to": after})
    elif before == after:
        click.echo(f"{here.shown} has schema {after}: up to date")
    elif before == 0:
        click.echo(f"{here.shown} was made, with schema {after}")
    else:
        click.echo(f"{here.shown} was brought from schema {before} to {after}")
