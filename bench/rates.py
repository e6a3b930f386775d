"""Jobs a second, side by side with the raw loop: the table that races end in."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from bench.result import Cell, Column, Table
from bench.stopwatch import lower_ratio, ratio
from stoker.store.sqlite.driver import Sync

Rates = Mapping[tuple[Sync, str], list[float]]

_COLUMNS = (
    Column("sync"),
    Column("loop"),
    Column("jobs/s, median", ",.0f"),
    Column("jobs/s, best", ",.0f"),
    Column("of raw", ".0%"),
    Column("of raw, best", ".0%"),
)


def rate_table(title: str, rates: Rates, against: Mapping[str, str], note: str = "") -> Table:
    """A row for each contestant; `against` names the raw loop each is compared with."""
    rows = tuple(_row(sync, name, rates, against[name]) for sync, name in rates)
    return Table(title, _COLUMNS, rows, note)


def _row(sync: Sync, name: str, rates: Rates, raw: str) -> tuple[Cell, ...]:
    own, other = rates[sync, name], rates[sync, raw]
    shares = (None, None) if name == raw else (ratio(own, other), max(own) / max(other))
    return (sync.name, name, median(own), max(own), *shares)


def reached(rates: Rates, sync: Sync, name: str, raw: str) -> float:
    """The share of the raw loop's speed that counts for a target."""
    return lower_ratio(rates[sync, name], rates[sync, raw])
