"""`stoker version`."""

from __future__ import annotations

import platform

import click

from stoker import __version__
from stoker.doors.cli import show
from stoker.doors.cli.command import Command, json_option


@click.command(cls=Command, examples=["stoker version", "stoker version --json"])
@json_option
def version(*, as_json: bool) -> None:
    """Which Stoker this is, and on which Python it runs."""
    if as_json:
        show.document({"stoker": __version__, "python": platform.python_version()})
    else:
        click.echo(f"stoker {__version__} on Python {platform.python_version()}")
