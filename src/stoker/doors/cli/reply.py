"""`stoker reply`."""

from __future__ import annotations

import sys

import click

from stoker.desk import Reply
from stoker.doors.cli import show
from stoker.doors.cli.command import Command, json_option, opened
from stoker.doors.cli.place import Place
from stoker.doors.cli.words import read_json
from stoker.errors import BadInput, Refused

_IGNORED = {
    Reply.LATE: "the question {key!r} is over, its job waits for no answer any more: this one came "
    "too late, and no job that begins from now on takes it",
    Reply.REPEATED: "an answer for {key!r} was there already; this one was ignored",
}
_TOLD = {
    Reply.DELIVERED: "delivered: the job that waited for it goes on",
    Reply.KEPT: "kept: nobody waits for it yet, it is there for a minute",
}


@click.command(
    cls=Command,
    examples=[
        "stoker reply order-17 '{\"approved\": true}'",
        "curl -s https://example.org/answer | stoker reply order-17 -",
    ],
)
@click.argument("key")
@click.argument("answer", metavar="JSON")
@json_option
@opened()
def reply(here: Place, *, key: str, answer: str, as_json: bool) -> None:
    """Answer the job that waits for the reply KEY. The answer is JSON; - reads it from stdin."""
    said = sys.stdin.read() if answer == "-" else answer
    try:
        read_json(said)
    except BadInput as error:
        raise BadInput(f"the answer cannot be used; {error}; write text as '\"yes\"'") from error
    outcome = here.desk.control.reply(key, said.encode())
    if outcome in _IGNORED:
        raise Refused(_IGNORED[outcome].format(key=key))
    if as_json:
        show.document({"key": key, "outcome": outcome.value})
    else:
        click.echo(_TOLD[outcome])
