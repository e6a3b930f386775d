"""Repeat: when a job that has run is to run again.

Three kinds, each a small value with the same methods, each written as a line of text:

    FINISHED, +1 DAY, START OF DAY                      a pattern (`kernel.pattern`)
    every 5m; missed=all:10                             an interval (`kernel.every`)
    cron 0 5 * * mon-fri in Europe/Berlin; gap=skip     a cron expression (`kernel.cron`)

The text is what is stored; `str` of a repeat gives its canonical form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from stoker.errors import BadInput
from stoker.kernel.cron import Cron
from stoker.kernel.every import Every
from stoker.kernel.pattern import Pattern

Repeat = Pattern | Every | Cron

LONGEST_TEXT = 1000

_KINDS: dict[str, Callable[[str], Repeat]] = {"every": Every.parse, "cron": Cron.parse}


# A policy is read with every job that has it, and few texts serve many jobs.
@lru_cache(maxsize=1024)
def parse_repeat(text: str) -> Repeat:
    """Read a repeat of any kind; the error says which piece is wrong and shows a right one."""
    if len(text) > LONGEST_TEXT:
        raise BadInput(f"a repeat may have {LONGEST_TEXT} characters, this one has {len(text)}")
    kind, rest = (*text.split(None, 1), "", "")[:2]
    read = _KINDS.get(kind.lower())
    return Pattern.parse(text) if read is None else read(rest)


def first_due(repeat: Repeat, *, now: int) -> int:
    """When the first run is due, if nobody named a time for it."""
    return repeat.first_due(now=now)


def next_due(repeat: Repeat, *, scheduled: int, started: int | None, finished: int) -> int:
    """When to run again after a run that was due, began and ended at these times."""
    return repeat.next_due(scheduled=scheduled, started=started, finished=finished)


def preview(repeat: Repeat, *, after: int, count: int) -> list[int]:
    """The runs that follow one at `after`, if each starts on time and takes no time."""
    runs = [after]
    for _ in range(count):
        at = runs[-1]
        runs.append(next_due(repeat, scheduled=at, started=at, finished=at))
    return runs[1:]


def overlaps(repeat: Repeat) -> bool:
    """Whether every tick starts a run of its own, even while earlier ones still go on."""
    return repeat.overlaps
