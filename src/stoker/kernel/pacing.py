"""How often a call of the same name may become a job: once in a while, or when it is quiet again.

*Once per* a period keeps the first call, and every other one in that time stands for it. *Debounce*
keeps the last: a call that comes while the job has not begun takes its place and puts it off.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.errors import BadInput
from stoker.kernel import lifecycle
from stoker.kernel.change import Change, Write
from stoker.kernel.control import edit, enqueue
from stoker.kernel.duration import is_time, text
from stoker.kernel.job import QUEUED, Job


class OncePer(msgspec.Struct, frozen=True):
    """The first call counts, for so many microseconds from then on."""

    period: int

    def __post_init__(self) -> None:
        if not is_time(self.period, least=1):
            raise BadInput(
                "once_per must be more than 0 and at most 1,000 years: say for how long the first "
                "call counts"
            )


class Debounce(msgspec.Struct, frozen=True):
    """The last call counts, when there was none for `quiet` microseconds; but the job is put off
    no longer than `at_most` after the first (None: as long as calls come)."""

    quiet: int
    at_most: int | None = None

    def __post_init__(self) -> None:
        if not is_time(self.quiet, least=1):
            raise BadInput(
                "debounce must be more than 0 and at most 1,000 years: say how long to wait for "
                "another call"
            )
        if self.at_most is not None and not is_time(self.at_most):
            raise BadInput("at_most cannot be more than 1,000 years; leave it out for no limit")
        if self.at_most is not None and self.at_most < self.quiet:
            raise BadInput(
                f"at_most ({text(self.at_most)}) must not be less than debounce "
                f"({text(self.quiet)}): the job would never wait as long as you say"
            )


Pace = OncePer | Debounce


def pace_of(once_per: int | None, debounce: int | None, at_most: int | None) -> Pace | None:
    """The pace that was said, if any; all in microseconds."""
    if once_per is not None and debounce is not None:
        raise BadInput("once_per keeps the first call and debounce the last; say one of them")
    if at_most is not None and debounce is None:
        raise BadInput("at_most limits how long debounce may put a job off; say both")
    if debounce is not None:
        return Debounce(debounce, at_most)
    return None if once_per is None else OncePer(once_per)


def check_pace(job: Job, pace: Pace) -> None:
    """Refuse what makes no sense together."""
    said = "once_per" if isinstance(pace, OncePer) else "debounce"
    if job.unique_key is None:
        raise BadInput(f"{said} needs a unique key, by which calls that mean the same are known")
    if job.policy.repeat is not None:
        raise BadInput(f"{said} is for calls; a job that repeats has a time of its own")
    if isinstance(pace, Debounce) and job.due_at:
        raise BadInput("debounce says itself when the job runs; leave out the delay or time")
    if isinstance(pace, Debounce) and job.ref is not None:
        raise BadInput("debounce makes one job of many calls, so that none has a ref of its own")


def debounce(new: Job, there: Job | None, pace: Debounce, *, now: int) -> Change:
    """What a call means for the job that has its unique key.

    One that has not begun is put off, with the new call's news. One that has begun is left to what
    it is doing: it gives up its name to a job of the new call's own.
    """
    if there is not None and _has_not_begun(there):
        return edit(there, {**news(new), "due_at": _due_at(there, pace, now)})
    change = enqueue(new, now=now, due_at=now + pace.quiet)
    if there is None:
        return change
    lifecycle.check("edit", there, there.state)
    return change | Change(writes=(Write(there, {"unique_key": None}),))


def _has_not_begun(job: Job) -> bool:
    """Has no handler seen it, and will none have to go on with it?"""
    return job.state is QUEUED and job.started_at is None


def _due_at(there: Job, pace: Debounce, now: int) -> int:
    due_at = now + pace.quiet
    return due_at if pace.at_most is None else min(due_at, there.created_at + pace.at_most)


def news(job: Job) -> dict[str, Any]:
    """What a job takes over from a twin that came later."""
    return {
        "payload": job.payload,
        "format": job.format,
        "meta": job.meta,
        "policy": job.policy,
        "rank": job.rank,
    }
