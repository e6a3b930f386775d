"""Taking times so that they can be compared: turn by turn, never one side after the other."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TypeVar

import apsw

from bench.plan import Along

K = TypeVar("K")
V = TypeVar("V")


def race(
    turns: Mapping[K, Callable[[], V]], rounds: int, along: Along, what: str, warm_ups: int = 1
) -> dict[K, list[V]]:
    """A turn for each contestant, then another, so that a slow moment hits all alike.

    The first rounds warm caches and are not counted.
    """
    found: dict[K, list[V]] = {name: [] for name in turns}
    for name in along([*turns] * (warm_ups + rounds), what):
        found[name].append(turns[name]())
    return {name: values[warm_ups:] for name, values in found.items()}


def seconds(work: Callable[[], object]) -> float:
    """How long a piece of work takes, from an even start."""
    gc.collect()
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / 1e9


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios round by round: both sides of each met the same weather."""
    return median(a / b for a, b in zip(ours, theirs, strict=True))


def lower_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The less flattering of both measures, by round and by best: on a busy machine one of them
    may be too good to be true."""
    return min(ratio(ours, theirs), max(ours) / max(theirs))


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]


def clear_log(path: Path) -> None:
    """Empty the write-ahead log into the file, so that no turn pays for the one before it.

    The log keeps its length: growing it again would be paid for by whoever comes next.
    """
    connection = apsw.Connection(os.fspath(path))
    connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    connection.close()
