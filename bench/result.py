"""What a benchmark found: tables and targets, as values before anybody prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from bench.machine import Machine
from bench.plan import Plan

Cell = str | int | float | None


class Column(msgspec.Struct, frozen=True):
    """A column's heading and the format of the numbers under it."""

    name: str
    form: str = ","


class Table(msgspec.Struct, frozen=True):
    """One table of figures, and what a reader needs to know about it."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def texts(self) -> list[list[str]]:
        """The rows as people read them."""
        return [
            [_text(cell, column.form) for cell, column in zip(row, self.columns, strict=True)]
            for row in self.rows
        ]


def _text(cell: Cell, form: str) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else format(cell, form)


class Target(msgspec.Struct, frozen=True):
    """Something that we want to reach, mostly a share of another's speed."""

    what: str
    wanted: float
    reached: float
    form: str = "{:.0%}"
    below: bool = False
    """Less is better: the figure must not exceed what is wanted."""

    @property
    def ok(self) -> bool:
        """Is it reached?"""
        return self.reached <= self.wanted if self.below else self.reached >= self.wanted

    def row(self) -> tuple[Cell, ...]:
        """The target and its verdict as people read them."""
        sign = "≤" if self.below else "≥"
        wanted, reached = self.form.format(self.wanted), self.form.format(self.reached)
        return (self.what, f"{sign} {wanted}", reached, "pass" if self.ok else "fail")


class Result(msgspec.Struct, frozen=True):
    """All that one benchmark found."""

    tables: tuple[Table, ...]
    targets: tuple[Target, ...] = ()


class Report(msgspec.Struct, frozen=True):
    """A whole run: when, where, how much, and what came of it."""

    date: str
    engine: str
    machine: Machine
    facts: list[str]
    """The engine's versions and settings."""
    plan: Plan
    results: Mapping[str, Result]

    def tables(self) -> Iterator[Table]:
        """The verdict first, then every table in the order of the benchmarks."""
        yield from self.verdict()
        for result in self.results.values():
            yield from result.tables

    def verdict(self) -> Iterator[Table]:
        """The targets with what was reached, if any was aimed at."""
        targets = [target for result in self.results.values() for target in result.targets]
        if targets:
            yield Table("Targets", _TARGET_COLUMNS, tuple(target.row() for target in targets))


_TARGET_COLUMNS = (Column("target"), Column("wanted"), Column("reached"), Column("verdict"))


def markdown(table: Table) -> str:
    """A table as Markdown, its heading one below the page's sections."""
    lines = [
        "| " + " | ".join(column.name for column in table.columns) + " |",
        "|" + "|".join(_rule(table, place) for place in range(len(table.columns))) + "|",
        *("| " + " | ".join(map(_escaped, row)) + " |" for row in table.texts()),
    ]
    note = f"\n{table.note}\n" if table.note else ""
    return f"### {table.title}\n{note}\n" + "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _rule(table: Table, place: int) -> str:
    return "---:" if is_numeric(table, place) else "---"


def is_numeric(table: Table, place: int) -> bool:
    """Does the column hold numbers?"""
    return not any(isinstance(row[place], str) for row in table.rows)
