"""Repeat by pattern: a base and the steps from it, such as `FINISHED, +1 DAY, START OF DAY`.

The base says from where to count: SCHEDULED, when the run was due; STARTED, when it really
began; FINISHED, when it ended. The steps are those of `sqlite_time` and START OF HOUR, taken one
after the other, in UTC. A result in the past is due at once, hence a job that repeats from
SCHEDULED catches up on the runs it missed, back to back.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from stoker.errors import BadInput
from stoker.kernel.sqlite_time import apply_modifier

BASES = ("SCHEDULED", "STARTED", "FINISHED")
CANNED = {
    "HOURLY": ("FINISHED", "+1 HOUR"),
    "DAILY": ("FINISHED", "+1 DAY"),
    "WEEKLY": ("FINISHED", "+7 DAYS"),
}
_HOUR = 3_600_000_000
_PROBE = 4_102_444_800_000_000  # 2100-01-01: from here a pattern must stay in the calendar


class Pattern(msgspec.Struct, frozen=True):
    """The words of a pattern in upper case: a canned one, or a base and its modifiers."""

    words: tuple[str, ...]
    overlaps: ClassVar[bool] = False

    def __post_init__(self) -> None:
        base, *modifiers = self._meaning
        if base not in BASES:
            raise BadInput(
                f'cannot read the repeat "{self}": begin a pattern with SCHEDULED, STARTED or '
                'FINISHED, as in "FINISHED, +1 DAY"; or write HOURLY, DAILY, WEEKLY, "every 5m" '
                'or "cron 0 5 * * mon-fri"'
            )
        if not modifiers:
            raise BadInput(f'the repeat "{self}" needs a step, as in "{base}, +1 DAY"')
        self.next_due(scheduled=_PROBE, started=_PROBE, finished=_PROBE)

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Read a pattern in any case; spaces may follow a comma but not precede it."""
        words = tuple(word for part in text.split(",") if (word := part.lstrip(" ")))
        return cls(tuple(word.upper() if word.isascii() else word for word in words))

    def __str__(self) -> str:
        return ", ".join(self.words)

    @property
    def _meaning(self) -> tuple[str, ...]:
        return CANNED.get(str(self), self.words) or ("",)

    def first_due(self, *, now: int) -> int:
        """A pattern says nothing about the first run: it is due now."""
        return now

    def next_due(self, *, scheduled: int, started: int | None, finished: int) -> int:
        """Count from the base, step by step. A run that never started counts from its end."""
        base, *modifiers = self._meaning
        begun = finished if started is None else started
        at = {"SCHEDULED": scheduled, "STARTED": begun, "FINISHED": finished}[base]
        for modifier in modifiers:
            at = _step(at, modifier)
        return at


def _step(at: int, modifier: str) -> int:
    # SQLite has no START OF HOUR, so it is ours alone.
    return at - at % _HOUR if modifier == "START OF HOUR" else apply_modifier(at, modifier)
