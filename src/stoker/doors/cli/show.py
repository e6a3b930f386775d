"""All that the command line prints.

For people: calm tables, with colour on a terminal only and never where NO_COLOR is set. For
programs: JSON. Rich is imported when something is to be drawn, and not before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from stoker.errors import Refused
from stoker.kernel.job import State
from stoker.store.finding import Level

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

_ENDLESS = 100_000
"""The width of what is no terminal: nothing is cut off or broken there."""

STATE_STYLES: Mapping[State, str] = {
    State.QUEUED: "",
    State.RUNNING: "cyan",
    State.WAITING: "yellow",
    State.FINISHED: "green",
    State.FAILED: "red",
    State.CANCELLED: "dim",
}
LEVEL_STYLES: Mapping[Level, str] = {
    Level.FINE: "green",
    Level.WARNING: "yellow",
    Level.PROBLEM: "bold red",
}


class Ink(NamedTuple):
    """A text and how it is to look."""

    text: str
    style: str = ""


class Column(NamedTuple):
    """A column of a table. A `loose` one gives way when the terminal is narrow."""

    title: str
    right: bool = False
    loose: bool = False
    style: str = ""


Cell = str | int | Ink
Row = Sequence[Cell]


def state(of: State) -> Ink:
    """A state in its colour."""
    return Ink(of.name, STATE_STYLES[of])


def count(number: int, style: str = "") -> Ink:
    """A number with commas; a zero stands back."""
    return Ink(f"{number:,}", style if number else "dim")


# --- For people ----------------------------------------------------------------------------------


def console(*, stderr: bool = False) -> Console:
    """Where to draw."""
    from rich.console import Console

    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(
        stderr=stderr,
        width=None if terminal else _ENDLESS,
        highlight=False,
        markup=False,
        emoji=False,
    )


def table(columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Print a table."""
    draw(table_of(columns, rows))


def table_of(columns: Sequence[Column], rows: Iterable[Row]) -> Table:
    """A table, to be printed by itself or with others; columns that say nothing are left out."""
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    cells = [[_text(cell) for cell in row] for row in rows]
    telling = [place for place in range(len(columns)) if any(row[place].plain for row in cells)]
    for column in (columns[place] for place in telling):
        drawn.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not column.loose,
            style=column.style,
        )
    for row in cells:
        drawn.add_row(*(row[place] for place in telling))
    return drawn


def _text(cell: Cell) -> Text:
    from rich.text import Text

    text, style = cell if isinstance(cell, Ink) else (str(cell), "")
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def facts(pairs: Iterable[tuple[str, Cell]]) -> None:
    """Print names and values, one pair a line; long values go on below themselves."""
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    drawn.add_column(style="dim", no_wrap=True)
    drawn.add_column(overflow="fold")
    for name, cell in pairs:
        text, style = cell if isinstance(cell, Ink) else (str(cell), "")
        drawn.add_row(name, Text(text, style=style))
    draw(drawn)


def draw(drawn: RenderableType) -> None:
    """Print something drawn; but for a terminal, without the blanks that fill up its lines."""
    out = console()
    if out.is_terminal:
        out.print(drawn)
        return
    with out.capture() as captured:
        out.print(drawn)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def line(*parts: Cell, stderr: bool = False) -> None:
    """Print one line of texts in their colours; no width breaks it."""
    from rich.text import Text

    whole = Text.assemble(*(_text(part) for part in parts))
    console(stderr=stderr).print(whole, soft_wrap=True)


def note(text: str) -> None:
    """A remark that is not part of the answer: it does not go where the answer goes."""
    line(Ink(text, "dim"), stderr=True)


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, nothing elsewhere; the function given moves it on."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps: bar.advance(task, steps)


# --- For programs --------------------------------------------------------------------------------


def document(value: Any) -> None:
    """Print one JSON document."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def lines(values: Iterable[Any]) -> None:
    """Print a JSON document a line."""
    for value in values:
        click.echo(msgspec.json.format(msgspec.json.encode(value), indent=-1).decode())


# --- Asking --------------------------------------------------------------------------------------


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is done to many; no answer is a no."""
    if not yes and not _answered(lambda: click.confirm(question, err=True)):
        raise Refused("nothing was done; answer y, or say --yes")


def confirm_by_name(question: str, name: str, *, yes: bool) -> None:
    """Ask before something is destroyed: only the name itself is a yes."""
    if not yes and _answered(lambda: click.prompt(question, err=True)) != name:
        raise Refused(f"nothing was done; type {name} to do it, or say --yes")


def _answered(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        return None  # nobody is there to answer
