"""`stoker stdio`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from stoker.doors.cli.command import Command, Function, opened
from stoker.doors.stdio.settings import LONGEST

if TYPE_CHECKING:
    from stoker.doors.cli.place import Place

_STDIN, _STDOUT, _STDERR = 0, 1, 2


def _setting(
    option: str, name: str, variable: str, text: str, **more: Any
) -> Callable[[Function], Function]:
    """An option that the environment may give as well, and the field of `Settings` it is for."""
    return click.option(option, name, envvar=variable, help=f"{text}; or {variable}.", **more)


def _named(option: str, name: str, variable: str, text: str) -> Callable[[Function], Function]:
    return _setting(option, name, variable, text, metavar="NAME")


def _millis(option: str, name: str, variable: str, text: str) -> Callable[[Function], Function]:
    return _setting(option, name, variable, text, metavar="MS", type=click.IntRange(1, LONGEST))


@click.command(
    cls=Command,
    examples=[
        "stoker stdio --store sqlite:///jobs.db",
        "stoker stdio --store sqlite:///jobs.db < messages.jsonl > assignments.jsonl",
        "stoker stdio --namespace-listener lab --namespace-publisher lab --tick-interval 1000",
    ],
)
@_named("--service-name", "name", "SERVICE_NAME", "Our name in messages, job_queue by default")
@_named("--service-uuid", "uuid", "SERVICE_UUID", "Our UUID in messages, by default a new one")
@_named("--service-host", "host", "SERVICE_HOST", "Our host in messages, by default its name")
@_named(
    "--namespace-listener",
    "listener",
    "NAMESPACE_LISTENER",
    "What topics to read begin with, default by default",
)
@_named(
    "--namespace-publisher",
    "publisher",
    "NAMESPACE_PUBLISHER",
    "What topics to write begin with, default by default",
)
@_millis(
    "--tick-interval", "tick_interval", "TICK_INTERVAL", "How often workers speak, 3000 by default"
)
@_millis(
    "--worker-expiry",
    "worker_expiry",
    "WORKER_EXPIRY_PERIOD",
    "Silence after which a worker is forgotten, 3 ticks by default",
)
@_millis(
    "--max-lease",
    "max_lease",
    "MAX_LEASE_TIME",
    "Silence about a job after which it goes back, 3 ticks by default",
)
@_setting(
    "--log-level",
    "log_level",
    "LOG_LEVEL",
    "critical, error, warning, info or debug",
    metavar="LEVEL",
    default="info",
    show_default=True,
)
@opened(make=True, private=True)
def stdio(place: Place, *, log_level: str, **settings: Any) -> None:
    """Read messages from standard input, and push jobs to idle workers on standard output.

    A message is a JSON object on a line, with a topic; so is an entry of the log, on standard
    error. Any number of processes may share a store. When standard input ends, what was read is
    seen to, and the process ends; so it does on SIGTERM and Ctrl-C.
    """
    from stoker.doors.stdio import log, loop
    from stoker.doors.stdio.settings import Settings

    log.set_up(log_level, _write_log)
    said = {name: value for name, value in settings.items() if value is not None}
    sys.exit(loop.run(Settings(**said), lambda: place.desk.store, _STDIN, _STDOUT))


def _write_log(line: bytes) -> None:
    os.write(_STDERR, line)
