"""The hold: which jobs are on board, and what came of those that are done.

At every moment a job is in hand, or in the outbox, or on a trip. No lock sees to that but the order
of steps of which each is atomic: runners who all need one lock to say a word on a job would soon
hand it from one to the next, job by job.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from stoker.kernel.job import Job
from stoker.kernel.outcome import Outcome
from stoker.worker.crews import Assignment

Word = tuple[Job, Outcome | None]
"""What came of a job; None: there is nobody to report to any more."""
Lease = tuple[int, int | None]


def lease_of(job: Job) -> Lease:
    """By what a job on board is known; of one claim there may be several."""
    return job.id, job.token


class Hold:
    """Takes jobs in, and a word on each."""

    def __init__(self) -> None:
        self.in_hand: set[Assignment] = set()
        """Those that are not in the outbox yet."""
        self.outbox: deque[Word] = deque()
        self._unsettled: set[Assignment] = set()
        """Those of which no word has come."""
        self._empty_since = time.monotonic()
        """When nothing was left in hand last. What there is in hand now makes it void."""
        self._idle = 0.0

    def load(self, assignments: Sequence[Assignment]) -> None:
        """These are on board now."""
        self._note_idle()
        self.in_hand.update(assignments)
        self._unsettled.update(assignments)

    def settle(self, assignment: Assignment, outcome: Outcome | None) -> bool:
        """A word on a job; False if one had come before, for the first one counts."""
        try:
            self._unsettled.remove(assignment)
        except KeyError:
            return False
        self.outbox.append((assignment.context.job, outcome))
        self.in_hand.remove(assignment)
        if not self.in_hand:
            self._empty_since = time.monotonic()
        return True

    def idled(self) -> float:
        """For how long nothing was in hand, since this was asked last."""
        self._note_idle()
        idle, self._idle = self._idle, 0.0
        return idle

    def _note_idle(self) -> None:
        if not self.in_hand:
            now = time.monotonic()
            self._idle += now - self._empty_since
            self._empty_since = now

    def leases(self) -> set[Lease]:
        """All that is on board. In this order: whoever leaves the one is in the other before."""
        leases = {lease_of(assignment.context.job) for assignment in list(self.in_hand)}
        leases.update(lease_of(job) for job, _ in list(self.outbox))
        return leases
