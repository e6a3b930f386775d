"""The table of commands; exit codes; errors in one line.

A command's module is imported when it is called, so that asking for help costs nothing.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from stoker import __version__
from stoker.doors.cli.command import Group
from stoker.doors.cli.streams import Unwritten, drop_output
from stoker.errors import BadInput, NotFound, StokerError, StoreError

REFUSED, USAGE, NOT_FOUND, STORE_TROUBLE, INTERRUPTED = 1, 2, 3, 4, 130

# The first that fits counts.
EXIT_CODES: Mapping[type[Exception], int] = {
    BadInput: USAGE,
    NotFound: NOT_FOUND,
    StoreError: STORE_TROUBLE,
    UnicodeEncodeError: USAGE,
    Exception: REFUSED,
}


COMMANDS: Mapping[str, Mapping[str, str]] = {
    "Run jobs": {
        "run": "Work on jobs and tell about each: for development.",
        "worker": "Work on jobs, in one or more processes: for production.",
        "serve": "Let programs of other languages in, over HTTP and TCP.",
        "stdio": "Take jobs as JSON lines, and push them to idle workers.",
        "bridge": "Take answers and jobs from Kafka, NATS, MQTT and AMQP.",
    },
    "Put jobs in": {
        "enqueue": "Put a job in.",
        "reply": "Answer a job that waits for a reply.",
    },
    "See and steer": {
        "jobs": "List, show, cancel, retry and delete jobs.",
        "queues": "List, show, pause, resume, set up and purge queues.",
        "schedule": "List, preview, pause, resume and run schedules.",
        "workers": "Who is at work, and with how many jobs.",
        "stats": "All jobs in numbers.",
        "top": "Watch queues, workers and running jobs live.",
        "explain": "Why a job is not running, and when it will.",
    },
    "Look after the store": {
        "check": "Is the store sound, durable, writable? What could be lost?",
        "migrate": "Make the store, or bring its schema up to date.",
        "token": "Tokens for clients of the HTTP door: add, list, remove.",
        "move": "Move all jobs to another store while work goes on.",
        "bench": "Measure the store, in a queue of its own.",
        "version": "Which Stoker this is.",
    },
}
"""Section -> command -> what it does. `x` is the function `x` in the module `x` of this package."""


class Root(Group):
    """The command line as a whole."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All commands, in the table's order."""
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"stoker.doors.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one was perhaps meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand:
            names = self.list_commands(ctx)
            raise click.exceptions.NoSuchCommand(args[0], possibilities=names, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table, section by section."""
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl(list(section.items()))

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run, tell what went wrong in one line, and leave with a code that means something."""
        settings["standalone_mode"] = False
        try:
            code = super().main(*args, **settings)
        except click.Abort:
            sys.exit(INTERRUPTED)
        except Unwritten as error:
            drop_output()
            if error.unwanted:
                sys.exit(0)
            _tell(str(error))
            sys.exit(REFUSED)
        except click.ClickException as error:
            _tell(error.format_message().removesuffix("."), _where_help_is(error))
            sys.exit(error.exit_code)
        except Exception as error:
            if os.environ.get("STOKER_DEBUG"):
                raise
            _tell(*_told(error))
            sys.exit(next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind)))
        sys.exit(code if isinstance(code, int) else 0)


def _where_help_is(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    if context is None:
        return ""
    advice = f"; try `{context.command_path} --help`"
    unlike_any = isinstance(error, click.NoSuchOption) and not error.possibilities
    if unlike_any and isinstance(context.command, click.Group):
        return f"; options stand behind the command that they are for{advice}"
    return advice


def _told(error: Exception) -> tuple[str, str]:
    if isinstance(error, StokerError):
        return str(error), ""
    if isinstance(error, UnicodeEncodeError):
        return "a word of the command is no text in UTF-8, and no store could keep it", ""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("rich"):
        return "tables need rich", "; pip install 'stoker[cli]', or say --json"
    return f"unexpected {type(error).__name__}: {error}", "; STOKER_DEBUG=1 shows where"


def _tell(message: str, advice: str = "") -> None:
    line = " ".join(message.split())
    click.echo(f"stoker: error: {line}{advice}", err=True)


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    examples=[
        "stoker run shop:app                        # work on the jobs of an app",
        "stoker enqueue --app shop:app mail to=ann  # put one in",
        "stoker jobs list --state failed            # see what went wrong",
        "stoker explain 17                          # see why job 17 does not run",
    ],
)
@click.version_option(__version__, prog_name="stoker", message="%(prog)s %(version)s")
def root() -> None:
    """Stoker keeps jobs and runs them: later, again, somewhere else, and never loses one.

    Where the jobs are is said by --store URL, by --app MODULE:APP, or by the environment
    variables STOKER_STORE and STOKER_APP; else it is the file stoker.db in the working directory.
    Commands that show something have --json for programs. Each has its own --help.
    """
