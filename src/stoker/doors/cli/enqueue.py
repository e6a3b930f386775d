"""`stoker enqueue`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import UNSET

from stoker.desk import Placement, Twin
from stoker.doors.cli import show
from stoker.doors.cli.command import Command, json_option, opened
from stoker.doors.cli.place import Place
from stoker.doors.cli.words import (
    SECOND,
    jobs_text,
    read_arguments,
    read_json,
    read_moment,
)
from stoker.errors import BadInput
from stoker.kernel.amount import units
from stoker.kernel.duration import micros
from stoker.kernel.facts import check_name
from stoker.kernel.job import WHOLE_WEIGHT, Format, Job
from stoker.kernel.pacing import pace_of
from stoker.kernel.policy import PLAIN, Policy
from stoker.kernel.unique import unique_key
from stoker.kernel.window import windows_of

if TYPE_CHECKING:
    from stoker.client import Call, Stoker


@click.command(
    cls=Command,
    examples=[
        "stoker enqueue --app shop:app shop.welcome user=7 lang=en",
        "stoker enqueue --app shop:app shop.welcome '{\"user\": 7}' --delay 5m --wait",
        "stoker enqueue --store sqlite:///jobs.db import --queue files --payload @files.json",
        "stoker enqueue --store sqlite:///jobs.db ping --count 1000",
        "stoker enqueue --app shop:app shop.report --windows '22:00-06:00 in Europe/Berlin'",
    ],
)
@click.argument("name")
@click.argument("arguments", metavar="[ARG]...", nargs=-1)
@click.option("--queue", metavar="QUEUE", help="By default the task's own, else `default`.")
@click.option("--delay", metavar="TIME", help="Not before this time has passed: 30s, 5m, 2h, 1d.")
@click.option("--at", metavar="TIME", help="Not before this moment: 2026-07-01T09:00+02:00.")
@click.option("--rank", metavar="N", default=0, show_default=True, help="Lower runs first.")
@click.option("--key", metavar="KEY", help="Whom it is for: tenant, region, server.")
@click.option(
    "--weight", metavar="N", type=float, help="How many places it takes: 0.5, 2; 0: none."
)
@click.option(
    "--windows", metavar="HOURS", help="When it may start: 22:00-06:00; always for any time."
)
@click.option("--unique", metavar="KEY", help="Not if a live job of this name has the same key.")
@click.option("--once-per", metavar="TIME", help="Only the first of its --unique in this time.")
@click.option(
    "--debounce", metavar="TIME", help="Only the last of its --unique, when quiet so long."
)
@click.option("--at-most", metavar="TIME", help="How long --debounce may put it off.")
@click.option("--payload", metavar="DATA", help="The payload as it is; @FILE or - for stdin.")
@click.option("--raw", is_flag=True, help="The payload is bytes, no JSON.")
@click.option(
    "--count",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=1,
    show_default=True,
    help="How many times.",
)
@click.option("--wait", is_flag=True, help="Wait for the end and print the result.")
@click.option("--timeout", metavar="TIME", help="How long to wait at most.")
@json_option
@opened(make=True)
def enqueue(
    here: Place,
    *,
    name: str,
    count: int,
    wait: bool,
    timeout: str | None,
    as_json: bool,
    **said: Any,
) -> None:
    """Put a job in: NAME is its task. It is durable when this returns.

    An ARG is name=value, or a value. Values are JSON where that is possible, else text: 7 is a
    number, '"7"' and seven are texts. One JSON object alone stands for all arguments by name.

    With --app the arguments are checked by the task, and its queue, retries and time limit apply.
    With only a --store the payload is stored as given.
    """
    check_name("the name of a task", name)
    if timeout is not None and not wait:
        raise BadInput("--timeout is for --wait; say both, or leave it out")
    if count > 1 and (said["once_per"] or said["debounce"]):
        raise BadInput("--once-per and --debounce make one job of many calls; leave out --count")
    due_at = _due_at(here, said)
    if here.task_names():
        placements = _by_task(here.stoker(), name, count, due_at, said)
    else:
        placements = _by_hand(here, name, count, due_at, said)
    if wait:
        _await(here.stoker(), placements, timeout, as_json=as_json)
    else:
        _tell(placements, as_json=as_json)


def _by_task(
    app: Stoker, name: str, count: int, due_at: int, said: dict[str, Any]
) -> list[Placement]:
    chosen = app[name].options(
        at=datetime.fromtimestamp(due_at / SECOND, UTC) if due_at else None,
        key=said["key"],
        unique=said["unique"],
        queue=said["queue"],
        rank=said["rank"],
        weight=said["weight"],
        windows=UNSET if said["windows"] is None else said["windows"],
        once_per=said["once_per"],
        debounce=said["debounce"],
        at_most=said["at_most"],
    )
    positional, named = _arguments(app, name, said)
    try:
        call: Call = chosen.call(*positional, **named)
    except BadInput as error:
        if all(isinstance(value, str) for value in (*positional, *named.values())):
            raise
        raise BadInput(f"{error}; text that looks like JSON is written '\"7\"'") from error
    return [Placement(handle.id, handle.fresh) for handle in app.enqueue_many([call] * count)]


def _arguments(app: Stoker, name: str, said: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    if said["payload"] is None:
        return read_arguments(said["arguments"])
    data = _payload(said)
    definition = app.tasks.get(name)
    assert definition is not None  # it was found by this name
    if definition.codec.format is Format.JSON:
        return read_arguments([_checked_json(data).decode()])
    return [_text(data) if definition.codec.format is Format.TEXT else data], {}


def _by_hand(
    here: Place, name: str, count: int, due_at: int, said: dict[str, Any]
) -> list[Placement]:
    job = Job(
        "default" if said["queue"] is None else said["queue"],
        name,
        _stored(said),
        Format.BYTES if said["raw"] else Format.JSON,
        rank=said["rank"],
        due_at=due_at,
        weight=WHOLE_WEIGHT if said["weight"] is None else units(said["weight"], "weight"),
        policy=PLAIN if said["windows"] is None else Policy(windows=windows_of(said["windows"])),
        key=said["key"],
        # As tasks do, so that both see each other's jobs.
        unique_key=None if said["unique"] is None else unique_key(name, said["unique"]),
    )
    pace = pace_of(*(_time(said[name]) for name in ("once_per", "debounce", "at_most")))
    if pace is None:
        return here.desk.intake.enqueue_many([job] * count, twin=Twin.RETURN)
    return [here.desk.pacing.enqueue(job, pace)]


def _time(said: str | None) -> int | None:
    return None if said is None else micros(said)


def _stored(said: dict[str, Any]) -> bytes:
    if said["payload"] is not None:
        data = _payload(said)
        return data if said["raw"] else _checked_json(data)
    if said["raw"]:
        raise BadInput("--raw needs a --payload, such as --payload @FILE")
    positional, named = read_arguments(said["arguments"])
    if positional and named:
        raise BadInput(
            "without an app nobody knows the names of positional arguments; write all of them as "
            "name=value, or give --app"
        )
    return msgspec.json.encode(positional or named)


def _due_at(here: Place, said: dict[str, Any]) -> int:
    if said["delay"] is not None and said["at"] is not None:
        raise BadInput("say --delay or --at, not both")
    if said["delay"] is not None:
        return here.desk.store.now() + micros(said["delay"])
    return 0 if said["at"] is None else read_moment(said["at"])


def _payload(said: dict[str, Any]) -> bytes:
    if said["arguments"]:
        raise BadInput("give arguments or a --payload, not both")
    source: str = said["payload"]
    if source == "-":
        return sys.stdin.buffer.read()
    if not source.startswith("@"):
        return source.encode()
    try:
        return Path(source[1:]).read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read the payload from {source[1:]}: {error.strerror}") from error


def _checked_json(data: bytes) -> bytes:
    try:
        read_json(data)
    except BadInput as error:
        raise BadInput(
            f"the payload cannot be used; {error}; say --raw if it is not meant to be"
        ) from error
    return data


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"this task takes text, and the payload is none: {error}") from error


def _tell(placements: Sequence[Placement], *, as_json: bool) -> None:
    if as_json:
        show.lines({"id": placed.id, "fresh": placed.fresh} for placed in placements)
        return
    fresh = [placed.id for placed in placements if placed.fresh]
    if not fresh:
        click.echo(f"job {placements[0].id} is there already, with the same unique key")
    elif len(fresh) == 1:
        click.echo(f"job {fresh[0]} is enqueued")
    else:
        click.echo(f"{jobs_text(len(fresh))} are enqueued, from {fresh[0]} to {fresh[-1]}")


def _await(
    app: Stoker, placements: Sequence[Placement], timeout: str | None, *, as_json: bool
) -> None:
    """Print the results, one a line, as they come."""
    for placed in placements:
        result = app.job(placed.id).wait(timeout)
        form = {"id": placed.id, "fresh": placed.fresh, "result": result}
        show.lines([form if as_json else result])
