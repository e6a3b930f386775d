"""What a message comes down to: values, each of which the processor knows how to see to.

`at` is when the sender says it spoke, in microseconds by its own clock; `seen` is that or
the time of arrival, whichever is earlier, so that a clock that is fast prolongs no life.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from stoker.desk.push import Post
from stoker.doors.stdio.wire import Payload
from stoker.kernel.job import Job


class Add(NamedTuple):
    """New jobs, all or none."""

    jobs: list[Job]


class Deed(enum.IntEnum):
    """What a worker says about a job; a later one includes those before."""

    WORKS = 0
    ACCEPTED = 1
    FINISHED = 2


class Said(NamedTuple):
    """A worker's word about a job."""

    post: Post
    uuid: str
    deed: Deed
    at: int
    seen: int
    words: Payload
    progress: float | None = None


class Idle(NamedTuple):
    """A worker has nothing to do. `asks`: it wants a job itself, before others get one."""

    post: Post
    at: int
    seen: int
    asks: bool = False


class Listing(NamedTuple):
    """Somebody asks what there is in a queue."""

    tail: str
    """The end of the topic, which names the listing in the answer."""
    queue: str
    asker: str | None
    after: int | None = None
    before: int | None = None


class Delete(NamedTuple):
    """A job is to go."""

    uuid: str
    queue: str | None


class Tick(NamedTuple):
    """Time goes by."""


Intent = Add | Said | Idle | Listing | Delete | Tick
