"""`stoker migrate`."""

from __future__ import annotations

import click

from stoker.client import Stoker
from stoker.doors.cli import show
from stoker.doors.cli.command import Command, json_option, opened
from stoker.store.finding import Checkable


@click.command(cls=Command, examples=["stoker migrate", "stoker migrate --store sqlite:///jobs.db"])
@json_option
@opened(make=True)
def migrate(app: Stoker, *, as_json: bool) -> None:
    """Make the store if there is none, and bring its schema up to date.

    Whatever opens a store does the same; this is for doing it by itself, before a deployment.
    """
    store = app.desk.store
    before, after = store.migrated if isinstance(store, Checkable) else (0, 0)
    if as_json:
        show.document({"store": app.url, "from": before, "to": after})
    elif before == after:
        click.echo(f"{app.url} has schema {after}: up to date")
    elif before == 0:
        click.echo(f"{app.url} was made, with schema {after}")
    else:
        click.echo(f"{app.url} was brought from schema {before} to {after}")
