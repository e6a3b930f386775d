"""Claims: one call of a routine where queues have no limits, a walk through them where they do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from stoker.kernel.job import Job
from stoker.kernel.queue import Order
from stoker.store import Claim
from stoker.store.postgres.arrays import Array, Bigints, Texts
from stoker.store.postgres.begun import DUE_AT, ID, RANK, Heading, heading_of, jobs_of
from stoker.store.postgres.marks import Mark, Marks
from stoker.store.postgres.rows import Row

_ORDERS: Mapping[str | None, Order] = {"by time": Order.TIME_RANK, "by rank": Order.RANK_TIME}


class Verdict(NamedTuple):
    """How a claim fared: the server's moment, and the jobs, or how to read them; None if the
    session is dead.

    `kept` says that one of the queues has to be walked: the short way finds nothing there; `laned`
    that it is one to be asked by its lanes.
    """

    moment: int
    granted: list[Job] | Callable[[], list[Job]] | None
    kept: bool = False
    laned: bool = False

    def jobs(self) -> list[Job] | None:
        """The jobs, to be asked for when the transaction is over."""
        return self.granted() if callable(self.granted) else self.granted


class Asking:
    """One claim on its way: what it is asked with, and what its answer means."""

    def __init__(self, claim: Claim, marks: Marks) -> None:
        self.claim = claim
        self.queues = list(dict.fromkeys(claim.queues))
        self._marks = marks
        self._by = marks.for_claim(self.queues)
        self._began = time.monotonic()

    def parameters(self, given: int | None) -> list[Any]:
        """The parameters of the routine `claim`."""
        claim = self.claim
        lease = (claim.limit, claim.token, claim.session, claim.visibility)
        return [given, Texts.of(self.queues), *lease, *mark_arrays(self._by)]

    def verdict(self, rows: Sequence[Row]) -> Verdict:
        """What the answer means. The marks move on by it."""
        heading, rows = heading_of(rows[0]), rows[1:]
        laned = heading.said == "laned"
        if heading.said == "dead":
            return Verdict(heading.moment, None)
        if laned and heading.in_order is not None:
            return self._laned(heading, heading.in_order, rows)
        order = _ORDERS.get(heading.in_line if laned else heading.said)
        if order is None:
            return Verdict(heading.moment, [], kept=heading.said != "sealed", laned=laned)
        by_time = order is Order.TIME_RANK
        place = itemgetter(DUE_AT, RANK, ID) if by_time else itemgetter(RANK, DUE_AT, ID)
        jobs = jobs_of(sorted(rows, key=place), self.claim, heading.moment)
        self._marks.note(self._began, whole=not self._by, scarce=len(jobs) < self.claim.limit)
        self._marks.move(jobs, order, heading.moment, whole=not self._by)
        return Verdict(heading.moment, jobs, laned=laned)

    def _laned(self, heading: Heading, in_order: Sequence[int], rows: Sequence[Row]) -> Verdict:
        found = {job.id: job for job in jobs_of(rows, self.claim, heading.moment)}
        jobs = [found[job_id] for job_id in in_order]
        whole = not self._by
        self._marks.note(self._began, whole=whole, scarce=len(jobs) < self.claim.limit)
        if heading.in_line is not None:
            order = _ORDERS[heading.in_line]
            self._marks.move(jobs, order, heading.moment, whole=whole, past_lanes=True)
        return Verdict(heading.moment, jobs, laned=True)


def mark_arrays(marks: Sequence[Mark]) -> list[Array]:
    """Marks as routines take them; those for jobs past their lanes name no queue."""
    dues, seconds, jobs = zip(*(mark.place for mark in marks), strict=True) if marks else ((),) * 3
    return [
        Texts.of([None if mark.past_lanes else mark.queue for mark in marks]),
        Bigints.of([mark.bucket for mark in marks]),
        Bigints.of(dues),
        Bigints.of(seconds),
        Bigints.of(jobs),
    ]
