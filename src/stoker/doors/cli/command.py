"""What all commands have in common: examples in their help, --json, and an open place."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import click

Function = Callable[..., Any]


class Command(click.Command):
    """A command whose help ends with examples."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        super().format_epilog(ctx, formatter)
        _write_examples(self.examples, formatter)


class Group(click.Group):
    """Commands under one word, whose help ends with examples."""

    command_class = Command

    def __init__(self, *args: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        super().format_epilog(ctx, formatter)
        _write_examples(self.examples, formatter)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The commands in the order in which they were written."""
        return list(self.commands)


def _write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"{'':{formatter.current_indent}}{example}\n")


class FiniteRange(click.FloatRange):
    """A number within bounds, and no NaN, which compares with nothing."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number that is meant."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no number to reckon with.", param, ctx)
        return number


json_option = click.option(
    "--json", "as_json", is_flag=True, help="For programs: JSON instead of tables."
)
states_option = click.option(
    "--state",
    "states",
    metavar="STATE",
    multiple=True,
    help="Only jobs in this state; may be repeated.",
)
yes_option = click.option("--yes", is_flag=True, help="Do it without asking.")


def opened(*, make: bool = False, private: bool = False) -> Callable[[Function], Function]:
    """Give a command --store and --app, and an open Place as its first argument.

    `make`: a store that is not there is made. `private`: a store that no other process can see
    will do.
    """

    def decorate(function: Function) -> Function:
        @click.option(
            "--store", metavar="URL", help="The store, as in sqlite:///jobs.db; or STOKER_STORE."
        )
        @click.option(
            "--app",
            "app_ref",
            metavar="MODULE:APP",
            envvar="STOKER_APP",
            help="The app whose store and tasks are meant; or STOKER_APP.",
        )
        @functools.wraps(function)
        def command(store: str | None, app_ref: str | None, **rest: Any) -> None:
            from stoker.doors.cli import place  # help can do without it

            with place.opened(store, app_ref, make=make, private=private) as here:
                function(here, **rest)

        return command

    return decorate
