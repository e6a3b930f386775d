"""What a throttler is asked, and what it says: verdicts on candidates, by code of the user.

A candidate of which it says nothing is held: it stays in its place and is asked about again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from stoker.errors import BadInput
from stoker.kernel.facts import check_text
from stoker.kernel.job import Job
from stoker.kernel.queue import QueueSettings
from stoker.kernel.zones import is_moment, moment_of


class Admitted(msgspec.Struct, frozen=True):
    """It may start."""


class Held(msgspec.Struct, frozen=True):
    """It stays where it is."""

    reason: str = ""


class Deferred(msgspec.Struct, frozen=True):
    """It is due at another time."""

    until: int
    reason: str = ""


class Rejected(msgspec.Struct, frozen=True):
    """It is not to run at all."""

    reason: str


Verdict = Admitted | Held | Deferred | Rejected


class Throttle:
    """One question to a throttler: which of these jobs may start now?

    `candidates` are due, in the order of the queue; `running` are its jobs that run or wait for an
    answer from outside. A weight of 0 means that a job counts for no limit. Moments are UTC
    microseconds. `state` is the throttler's own: whatever JSON can hold, kept until the next time.
    `room` is how many the worker that asks can take.

    >>> throttle = Throttle("mail", [Job("mail", id=1), Job("mail", id=2)], room=5)
    >>> throttle.admit(throttle.candidates[0])
    >>> throttle.hold(throttle.candidates[1], "one at a time")
    >>> throttle.verdicts[2].reason
    'one at a time'
    """

    def __init__(
        self,
        queue: str,
        candidates: Sequence[Job],
        running: Sequence[Job] = (),
        *,
        now: int = 0,
        room: int = 1,
        state: Any = None,
        settings: QueueSettings | None = None,
    ) -> None:
        self.queue = queue
        self.candidates = candidates
        self.running = running
        self.now = now
        self.room = room
        self.state = state
        self.settings = settings or QueueSettings()
        self._verdicts: dict[int, Verdict] = {}
        self._asked = {job.id for job in candidates}

    @property
    def verdicts(self) -> Mapping[int, Any]:
        """What was said so far, by the ids of jobs; the last word counts."""
        return self._verdicts

    def admit(self, job: Job) -> None:
        """Let it start, if the limits of its queue let it."""
        self._say(job, Admitted())

    def hold(self, job: Job, reason: str = "") -> None:
        """Leave it where it is; the reason is for those who ask why it does not run."""
        self._say(job, Held(_told(reason)))

    def defer(self, job: Job, until: int | datetime, reason: str = "") -> None:
        """Give it another due time; no try is counted."""
        self._say(job, Deferred(_moment(until), _told(reason)))

    def refuse(self, job: Job, reason: str) -> None:
        """Do not run it at all: it fails, for this reason."""
        if not _told(reason):
            raise BadInput("a job is refused for a reason; say it")
        self._say(job, Rejected(reason))

    def _say(self, job: Job, verdict: Verdict) -> None:
        if job.id not in self._asked:
            raise BadInput(f"job {job.id} is no candidate; a throttler is asked about those alone")
        self._verdicts[job.id] = verdict


Throttler = Callable[[Throttle], object]


def _told(reason: str) -> str:
    check_text("the reason that a throttler gives", reason)
    return reason


def _moment(until: object) -> int:
    if isinstance(until, datetime):
        if until.tzinfo is None:
            raise BadInput("give the time with its zone, such as datetime.now(UTC)")
        until = moment_of(until)
    if not is_moment(until):
        raise BadInput(f"a job is put off to a datetime or to UTC microseconds, not to {until!r}")
    return until
