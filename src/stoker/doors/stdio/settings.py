"""How one process of the stdio door is set up."""

from __future__ import annotations

import socket
from uuid import uuid4

import msgspec

from stoker.doors.stdio.wire import Letterhead
from stoker.errors import BadInput

_MILLISECOND = 1_000
LONGEST = 20 * 86_400_000
"""Twenty days: the system cannot be asked to wait much longer at a time."""
_TICKS = 3  # of silence are enough


def _new_uuid() -> str:
    return str(uuid4())


class Settings(msgspec.Struct, frozen=True):
    """Who we are on the bus, and how long things may take, in milliseconds.

    >>> settings = Settings(tick_interval=1000, max_lease=5000)
    >>> settings.expiry, settings.lease
    (3000000, 5000000)
    """

    name: str = "job_queue"
    uuid: str = msgspec.field(default_factory=_new_uuid)
    host: str = msgspec.field(default_factory=socket.gethostname)
    listener: str = "default"
    """The namespace of topics that are read."""
    publisher: str = "default"
    """The namespace of topics that are written."""
    tick_interval: int = 3000
    """How often workers are to be heard of."""
    worker_expiry: int | None = None
    """After so long a silence a worker is forgotten; three ticks, if nothing is said."""
    max_lease: int | None = None
    """A job that is not accepted, or of which nothing is heard, goes back after so long; three
    ticks, if nothing is said."""

    def __post_init__(self) -> None:
        for name in ("tick_interval", "worker_expiry", "max_lease"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= LONGEST:
                raise BadInput(f"{name} must be from 1 to {LONGEST:,} ms, not {value}")

    @property
    def tick(self) -> int:
        """The tick interval in microseconds."""
        return self.tick_interval * _MILLISECOND

    @property
    def expiry(self) -> int:
        """The workers' expiry in microseconds."""
        return (self.worker_expiry or _TICKS * self.tick_interval) * _MILLISECOND

    @property
    def lease(self) -> int:
        """The lease in microseconds."""
        return (self.max_lease or _TICKS * self.tick_interval) * _MILLISECOND

    def letterhead(self) -> Letterhead:
        """What our messages have in common."""
        return Letterhead(self.publisher, self.uuid, self.name, self.host)
