"""Many rows with few statements.

Run once for each row, a statement takes another place in apsw's memory of statements each time. A
few hundred rows push all others out of it, which then have to be prepared again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import TypeVar

from stoker.store.sqlite.library import Connection
from stoker.store.sqlite.rows import Row

T = TypeVar("T")

_STEPS = (250, 50, 10, 1)
"""So many rows have statements of their own."""

_LONGEST_KEPT = 16_384
"""Longer statements apsw prepares anew each time."""

_ONE_ROW = re.compile(r"VALUES (\([?, ]+\))")


def in_steps(rows: Sequence[T], most: int = _STEPS[0]) -> Iterator[Sequence[T]]:
    """All of them, as many at a time as there are statements for, and not more than `most`."""
    done = 0
    for size in [step for step in _STEPS if step <= most]:
        while done + size <= len(rows):
            yield rows[done : done + size]
            done += size


def for_all(connection: Connection, sql: str, rows: Sequence[Row]) -> None:
    """Run a statement that has the values of one row, as if once for each of these."""
    for some in in_steps(rows, _most_at_once(sql)):
        connection.execute(for_so_many(sql, len(some)), [*chain.from_iterable(some)])


@cache
def for_so_many(sql: str, size: int) -> str:
    """The statement, with the values of so many rows."""
    return _ONE_ROW.sub(lambda found: "VALUES " + ", ".join([found[1]] * size), sql, count=1)


@cache
def _most_at_once(sql: str) -> int:
    return next(size for size in _STEPS if len(for_so_many(sql, size)) <= _LONGEST_KEPT)
