"""`stoker serve`: doors for programs of other languages."""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING

import click

from stoker.doors.addresses import is_loopback
from stoker.doors.cli import show
from stoker.doors.cli.command import Command, opened
from stoker.doors.cli.serve_http import http_door, http_options
from stoker.doors.cli.worker import LOG_FORMAT
from stoker.errors import BadInput, StokerError
from stoker.kernel.retry import LARGEST_LIMIT
from stoker.store.urls import read_port

if TYPE_CHECKING:
    from stoker.desk import Desk
    from stoker.doors.bedrock.commands import Question
    from stoker.doors.bedrock.server import BedrockDoor
    from stoker.doors.cli.place import Place
    from stoker.doors.porter import Door


@click.command(
    cls=Command,
    examples=[
        "stoker serve --store sqlite:///jobs.db --http 127.0.0.1:8080",
        "stoker serve --http 127.0.0.1:8080 --bedrock 127.0.0.1:8888",
        "stoker serve --bedrock 127.0.0.1:8888 --bedrock-query",
        "stoker serve --bedrock 0.0.0.0:8888 --bedrock-token SECRET --tls-cert s.pem",
    ],
)
@http_options
@click.option("--bedrock", metavar="ADDR", help="Serve the Bedrock line protocol here.")
@click.option(
    "--bedrock-query", is_flag=True, help="Allow Query: read-only SQL over all jobs of this door."
)
@click.option(
    "--bedrock-token",
    metavar="TOKEN",
    envvar="STOKER_BEDROCK_TOKEN",
    help="What clients must show in the header authToken; or STOKER_BEDROCK_TOKEN.",
)
@click.option(
    "--bedrock-tries",
    metavar="N",
    type=click.IntRange(0, LARGEST_LIMIT),
    default=10,
    show_default=True,
    help="Hand-outs of a job after which it has failed; 0: no limit.",
)
@click.option(
    "--bedrock-connections",
    metavar="N",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Connections at once.",
)
@click.option("--tls-cert", metavar="FILE", help="Serve over TLS with this certificate.")
@click.option("--tls-key", metavar="FILE", help="Its key, if it is in a file of its own.")
@click.option(
    "--insecure", is_flag=True, help="Allow an address that others can reach, without a token."
)
@opened(make=True, private=True)
def serve(
    place: Place,
    *,
    http: str | None,
    bedrock: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    insecure: bool,
    **settings: object,
) -> None:
    """Serve programs of other languages until SIGTERM or Ctrl-C.

    Each door has an address, HOST:PORT; port 0 takes any that is free and tells which. The chores
    of the store are done here as well, by one process at a time.
    """
    from stoker.doors.porter import keep_open

    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    tls = _tls(tls_cert, tls_key)
    doors: list[Door] = []
    if http is not None:
        address = read_address("--http", http)
        doors.append(http_door(place.desk, address, tls, insecure=insecure, **settings))
    if bedrock is not None:
        doors.append(_bedrock(place.desk, bedrock, tls, insecure=insecure, **settings))
    if not doors:
        raise BadInput(
            "no door was named: say --http 127.0.0.1:8080 or --bedrock 127.0.0.1:8888, or both"
        )
    keep_open(place.desk, doors, lambda where: show.note(f"{where}, jobs in {place.shown}"))


def _bedrock(
    desk: Desk,
    address: str,
    tls: ssl.SSLContext | None,
    *,
    insecure: bool,
    **settings: object,
) -> BedrockDoor:
    from stoker.doors.bedrock.server import BedrockDoor, Settings

    host, port = read_address("--bedrock", address)
    token = settings["bedrock_token"]
    if not (token or insecure or is_loopback(host)):
        raise BadInput(
            f"{host} can be reached by others: set --bedrock-token, or say --insecure if the "
            "network lets nobody in who should stay out"
        )
    return BedrockDoor(
        desk,
        Settings(
            host,
            port,
            token=str(token) if token else None,
            tls=tls,
            question=_question() if settings["bedrock_query"] else None,
            tries=int(str(settings["bedrock_tries"])) or None,
            connections=int(str(settings["bedrock_connections"])),
        ),
    )


def _question() -> Question:
    try:
        from stoker.doors.bedrock.query import ask
    except ModuleNotFoundError as missing:
        if missing.name != "apsw":
            raise
        raise StokerError("--bedrock-query needs apsw; pip install 'stoker[sqlite]'") from None
    return ask


def read_address(option: str, text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT, where the host may be left out or stand in brackets."""
    host, _, said = text.rpartition(":")
    port = read_port(said)
    if port is None:
        raise BadInput(f"{option} {text!r} is no address; write it as in 127.0.0.1:8888")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", port


def _tls(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    if certificate is None:
        if key is not None:
            raise BadInput("--tls-key needs a certificate; name it with --tls-cert")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # which includes what ssl says
        raise BadInput(f"cannot use {certificate} for TLS: {error}") from None
    return context
