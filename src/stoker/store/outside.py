"""Changes that somebody else's transaction commits: together with what it is about, or not at all.

Only an engine that lives in the caller's own database can do that; the others do not have this.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from stoker.kernel.change import Change
from stoker.store import Receipt


@runtime_checkable
class Outside(Protocol):
    """A store that can write over a connection which belongs to its caller.

    A Change may bring new jobs, or be about jobs that are there (writes, deletes and tallies). If
    a new job has a twin nothing happens; if a job has moved on, `LeaseLost` is raised and the
    caller's transaction is spoilt.
    Who waits for work is woken when that transaction commits. Consequences for other members of a
    family are seen to by the chores.
    """

    def commit_within(self, connection: object, change: Change) -> Receipt:
        """Let the transaction of this connection commit a Change."""

    async def acommit_within(self, connection: object, change: Change) -> Receipt:
        """The same for a connection that is awaited."""
