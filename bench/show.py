"""Progress and tables: in colour on a terminal, as Markdown anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import track
from rich.table import Table as RichTable

from bench.plan import Along
from bench.result import Table, is_numeric, markdown

T = TypeVar("T")


def progress() -> Along:
    """How far a long step has come, on the error stream."""
    return _in_colour if sys.stderr.isatty() else _in_words


def _in_colour(items: Sequence[T], what: str) -> Iterator[T]:
    yield from track(items, what, console=Console(stderr=True), transient=True)


def _in_words(items: Sequence[T], what: str) -> Iterator[T]:
    print(what, file=sys.stderr, flush=True)
    return iter(items)


def show(table: Table) -> None:
    """Print one table."""
    if sys.stdout.isatty():
        Console().print(_drawn(table))
    else:
        print(markdown(table), flush=True)


def _drawn(table: Table) -> RichTable:
    drawn = RichTable(title=table.title, caption=table.note or None, title_justify="left")
    for place, column in enumerate(table.columns):
        drawn.add_column(column.name, justify="right" if is_numeric(table, place) else "left")
    for row in table.texts():
        drawn.add_row(*row)
    return drawn
