"""Every error Stoker raises, drawn as one tree.

    StokerError
    ├── BadInput            the caller's words cannot be used; the message says what would do
    │   └── Scattered       fine elsewhere, but this store keeps what it is about in many places
    ├── NotFound            no such job, queue or schedule
    ├── Refused             the words are fine, but the job's life does not allow it now
    │   ├── IllegalMove     the lifecycle table has no such step
    │   ├── LeaseLost       somebody else holds the job by now; stop working on it
    │   ├── SessionLost     the worker was taken for dead; open a new session
    │   ├── Duplicate       a living job has the same unique key or reference
    │   └── Contended       the job kept changing under our hands; try again
    └── StoreError          the engine underneath cannot do its work
        ├── StoreUnavailable   cannot be reached or opened
        │   └── StoreUnfit     not as things are: waiting alone will not help
        ├── StoreLocked        another process holds it for too long
        ├── StoreFull          no room left to write
        ├── StoreReadOnly      may be read but not written
        ├── StoreTooNew        written by a newer version of Stoker
        ├── StoreMoved         sealed: its jobs are moving elsewhere, or have
        └── StoreCorrupt       its contents contradict themselves

`code` is the stable word for programs and wires; the message is for people.
"""

from __future__ import annotations

from typing import ClassVar


class StokerError(Exception):
    """Root of all errors raised by Stoker.

    >>> from stoker import Policy
    >>> try:
    ...     Policy(timeout=0)
    ... except StokerError as error:
    ...     print(error.code)
    bad_input
    """

    code: ClassVar[str] = "error"


class BadInput(StokerError, ValueError):
    """The caller's words cannot be used; the message says what would do."""

    code = "bad_input"


class Scattered(BadInput):
    """What is asked for in one step concerns several partitions of the store."""

    code = "scattered"


class NotFound(StokerError, LookupError):
    """There is no such job, queue or schedule."""

    code = "not_found"


class Refused(StokerError):
    """Well said, but the job's life does not allow it now."""

    code = "refused"


class IllegalMove(Refused):
    """The lifecycle table has no such step."""

    code = "illegal_move"


class LeaseLost(Refused):
    """Somebody else holds the job by now; the worker must stop working on it."""

    code = "lease_lost"


class SessionLost(Refused):
    """The worker's session was taken for dead; it must open a new one."""

    code = "session_lost"


class Duplicate(Refused):
    """A living job has the same unique key, or any job the same reference."""

    code = "duplicate"

    def __init__(self, message: str, *, existing_id: int) -> None:
        super().__init__(message)
        self.existing_id = existing_id


class Contended(Refused):
    """The job kept changing under our hands; trying again is safe."""

    code = "contended"


class StoreError(StokerError):
    """The engine underneath cannot do its work."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The engine cannot be reached or opened."""

    code = "store_unavailable"


class StoreUnfit(StoreUnavailable):
    """The engine cannot be opened as things are; waiting alone will not help."""


class StoreLocked(StoreError):
    """Another process holds the engine for too long."""

    code = "store_locked"


class StoreFull(StoreError):
    """There is no room left to write. What was acknowledged before is safe."""

    code = "store_full"


class StoreReadOnly(StoreError):
    """The engine may be read but not written."""

    code = "store_read_only"


class StoreTooNew(StoreError):
    """The data were written by a newer version of Stoker."""

    code = "store_too_new"


class StoreMoved(StoreError):
    """The store is sealed: its jobs are moving elsewhere, or have."""

    code = "store_moved"


class StoreCorrupt(StoreError):
    """The engine's contents contradict themselves."""

    code = "store_corrupt"
