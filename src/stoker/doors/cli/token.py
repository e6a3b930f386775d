"""`stoker token`: add, list and remove tokens of the HTTP door."""

from __future__ import annotations

import click

from stoker.doors.cli import show
from stoker.doors.cli.command import FiniteRange, Group, json_option, opened
from stoker.doors.cli.place import Place
from stoker.doors.cli.show import Column
from stoker.doors.cli.words import clock, iso
from stoker.doors.http.register import SCOPES, Register, Scope

COLUMNS = (
    Column("token", loose=True),
    Column("scopes"),
    Column("a second", right=True),
    Column("made"),
)


@click.group(
    cls=Group,
    examples=[
        "stoker token add shop --scope enqueue",
        "stoker token list",
        "stoker token remove shop",
    ],
)
def token() -> None:
    """Add, list and remove tokens: what clients of the HTTP door show, and what they may do.

    As soon as there is one, all clients need one. Tokens are in the store, as hashes; servers that
    run hear of a change within seconds.
    """


@token.command(
    examples=[
        "stoker token add shop --scope enqueue",
        "stoker token add fleet --scope work --scope enqueue --rate 500",
    ]
)
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    required=True,
    help="What it may do; may be repeated. admin may do everything.",
)
@click.option(
    "--rate",
    metavar="N",
    type=FiniteRange(min=0, min_open=True),
    help="Requests a second, if not as the server says.",
)
@opened(make=True)
def add(here: Place, *, name: str, scopes: tuple[Scope, ...], rate: float | None) -> None:
    """Make a token called NAME. It is printed now, and never again."""
    click.echo(Register(here.desk).add(name, scopes, rate))


@token.command("list", examples=["stoker token list", "stoker token list --json"])
@json_option
@opened()
def list_tokens(here: Place, *, as_json: bool) -> None:
    """List the tokens by name; how they read is not known any more."""
    entries = sorted(Register(here.desk).entries().items())
    if as_json:
        show.lines(
            {"name": name, "scopes": it.scopes, "rate": it.rate, "made_at": iso(it.made_at)}
            for name, it in entries
        )
    elif entries:
        show.table(
            COLUMNS,
            [
                (name, ", ".join(it.scopes), f"{it.rate or ''}", clock(it.made_at))
                for name, it in entries
            ],
        )
    else:
        show.note("there are no tokens; without any the HTTP door serves this machine only")


@token.command(examples=["stoker token remove shop"])
@click.argument("name")
@opened()
def remove(here: Place, *, name: str) -> None:
    """Remove the token NAME; whoever shows it is turned away."""
    Register(here.desk).remove(name)
    click.echo(f"the token {name} is good for nothing any more")
