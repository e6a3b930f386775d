"""What a command comes down to: a value that says what is to be done, and how to answer.

Commands are pure functions from a request to one of these. The counter carries them out, many of
the same kind in one durable step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from stoker.desk import Desk
from stoker.desk.clerk import Decision
from stoker.doors.bedrock.protocol import Reply
from stoker.errors import StokerError
from stoker.kernel.job import Job

Lines = Mapping[type[StokerError], str]
"""What the desk may say -> the command's own status line for it."""


class Place(NamedTuple):
    """Take in a job that is nobody's child and nobody's twin."""

    job: Job


class Decide(NamedTuple):
    """Decide about one job."""

    decision: Decision
    lines: Lines = MappingProxyType({})


class Look(NamedTuple):
    """Show one job."""

    job_id: int
    shown: Callable[[Job], Reply]


class Seek(NamedTuple):
    """Hand out jobs of these queues, as soon as there are any or at once."""

    queues: tuple[str, ...]
    """GLOB patterns."""
    rank: int | None
    wanted: int
    many: bool
    """Whether the answer is a list."""
    patience: float | None
    """Seconds to wait; None: not at all."""


class Errand(NamedTuple):
    """Anything else: a round trip of its own."""

    run: Callable[[Desk], Reply]
    lines: Lines = MappingProxyType({})


Intent = Reply | Place | Decide | Look | Seek | Errand
