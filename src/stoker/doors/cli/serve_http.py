"""What `stoker serve` has to say about the HTTP door."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import click

from stoker.doors.cli.command import FiniteRange, Function
from stoker.errors import StokerError

if TYPE_CHECKING:
    from stoker.desk import Desk
    from stoker.doors.http.server import HttpDoor

_MEGABYTE = 2**20


def http_options(function: Function) -> Function:
    """The options of the HTTP door."""
    for option in (
        click.option(
            "--http-connections",
            metavar="N",
            type=click.IntRange(min=1),
            default=10_000,
            show_default=True,
            help="Connections at once.",
        ),
        click.option(
            "--http-max-body",
            metavar="MB",
            type=click.IntRange(min=1),
            default=8,
            show_default=True,
            help="The largest request.",
        ),
        click.option(
            "--http-callbacks",
            metavar="URL",
            multiple=True,
            help="Post results to URLs that begin so, if a job wants it; may be repeated.",
        ),
        click.option(
            "--http-callback-secret",
            metavar="SECRET",
            multiple=True,
            envvar="STOKER_CALLBACK_SECRET",
            help="Take answers that are signed with this; or STOKER_CALLBACK_SECRET. May be "
            "repeated: all are good.",
        ),
        click.option(
            "--http-rate",
            metavar="N",
            type=FiniteRange(min=0, min_open=True),
            help="Requests a second that each token may make.",
        ),
        click.option("--http", metavar="ADDR", help="Serve the JSON API and Jobber's routes here."),
    ):
        function = option(function)
    return function


def http_door(
    desk: Desk,
    address: tuple[str, int],
    tls: ssl.SSLContext | None,
    *,
    insecure: bool,
    **said: Any,
) -> HttpDoor:
    """The door that is meant."""
    try:
        from stoker.doors.http.server import HttpDoor
        from stoker.doors.http.settings import Settings
    except ModuleNotFoundError as missing:
        if missing.name not in ("starlette", "uvicorn"):
            raise
        raise StokerError(f"--http needs {missing.name}; pip install 'stoker[http]'") from None
    host, port = address
    return HttpDoor(
        desk,
        Settings(
            host,
            port,
            tls=tls,
            insecure=insecure,
            rate=said["http_rate"],
            callbacks=tuple(said["http_callbacks"]),
            callback_secrets=tuple(said["http_callback_secret"]),
            largest_body=said["http_max_body"] * _MEGABYTE,
            connections=said["http_connections"],
        ),
    )
