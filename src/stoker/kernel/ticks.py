"""Ticks: due times that come whether anybody runs the job or not.

After a run some of the ticks that passed in the meantime still count. Those between its due time
and its start were missed, nobody was there to run the job; those between its start and its end
were overlapped, the job itself was in the way. The options `missed` and `overlap` say which of
them are made up for. The rest are dropped, and the schedule goes on in the future.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

from stoker.errors import BadInput

MOST_MADE_UP = 1000
ALL = 100
"""How many missed ticks a bare `missed=all` makes up for."""

Overlap = Literal["skip", "queue", "allow"]
USUAL = {"missed": "latest", "overlap": "skip"}
"""The options of all ticks, as they are when nobody says anything."""


class Line(Protocol):
    """Ticks on the line of time."""

    def after(self, at: int) -> int:
        """The first tick after a moment."""

    def latest(self, low: int, high: int) -> int | None:
        """The last tick in (low, high], if there is one."""


class Ticking(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of ticks that passed.

    `missed` is how many of the newest missed ticks are made up for: 0 skips them all. Of the
    overlapped ticks `queue` makes up for the newest, `skip` for none; `allow` has every tick
    start a run of its own, so that none is left to make up for.
    """

    missed: int = 1
    overlap: Overlap = "skip"

    def __post_init__(self) -> None:
        if not 0 <= self.missed <= MOST_MADE_UP:
            raise BadInput(f"missed=all:N needs N from 1 to {MOST_MADE_UP}, such as all:10")
        check_choice("overlap", self.overlap, ("skip", "queue", "allow"))

    @property
    def overlaps(self) -> bool:
        """Whether every tick starts a run of its own, even while earlier ones still go on."""
        return self.overlap == "allow"

    def due_on(self, line: Line, *, scheduled: int, started: int | None, finished: int) -> int:
        """The oldest tick to make up for after a run, else the first one still to come."""
        begun = max(scheduled, finished if started is None else started)
        ended = max(begun, finished)
        kept = oldest_kept(line, scheduled, begun, self.missed)
        if kept is None:
            kept = oldest_kept(line, begun, ended, 1 if self.overlap == "queue" else 0)
        return line.after(ended) if kept is None else kept


def oldest_kept(line: Line, low: int, high: int, keep: int) -> int | None:
    """The oldest of the newest `keep` ticks in (low, high]; no work is done for older ones."""
    oldest = None
    for _ in range(keep):
        tick = line.latest(low, high)
        if tick is None:
            break
        oldest, high = tick, tick - 1
    return oldest


def check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a value that is none of the choices of an option."""
    if value not in choices:
        raise BadInput(
            f"{option}={value} is unknown: choose {option}={f', {option}='.join(choices)}"
        )


def split_options(text: str, usual: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Take `head; option=value; …` apart and fill in what was left out."""
    head, *pairs = (part.strip() for part in text.split(";"))
    given: dict[str, str] = {}
    for pair in pairs:
        option, _, value = (side.strip().lower() for side in pair.partition("="))
        if option not in usual or option in given:
            known = ", ".join(f"{name}={value}" for name, value in usual.items())
            raise BadInput(f'cannot use the option "{pair}": give, at most once each, {known}')
        given[option] = value
    values: dict[str, Any] = {**usual, **given}
    return head, {**values, "missed": read_missed(values["missed"])}


def join_options(head: str, values: Mapping[str, Any], usual: Mapping[str, str]) -> str:
    """The opposite of `split_options`; what is as usual is left out."""
    texts = {**values, "missed": missed_text(values["missed"])}
    said = [f"{option}={texts[option]}" for option in usual if texts[option] != usual[option]]
    return "; ".join([head, *said])


def read_missed(text: str) -> int:
    """How many missed ticks to make up for: `skip`, `latest`, `all` or `all:10`."""
    if capped := re.fullmatch(r"all:([1-9][0-9]*)", text):
        return int(capped[1])
    check_choice("missed", text, ("skip", "latest", "all", "all:10"))
    return {"skip": 0, "latest": 1, "all": ALL}[text]


def missed_text(count: int) -> str:
    """The opposite of `read_missed`."""
    return {0: "skip", 1: "latest"}.get(count, f"all:{count}")
