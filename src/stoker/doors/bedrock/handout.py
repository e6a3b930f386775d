"""Claims of many stands in one step: what a stand gets, described for those who stand there.

No job is lost on the way. Whatever goes wrong once jobs have been claimed, the claim is in doubt
from then on, and what was started under its token is given back as soon as the store allows.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from stoker.desk import Desk
from stoker.doors.bedrock import words
from stoker.doors.bedrock.commands import described
from stoker.errors import Refused
from stoker.kernel.job import RUNNING, Job
from stoker.kernel.outcome import Released
from stoker.store import Claim, Filter
from stoker.store.paging import every
from stoker.watch.recover import recover

logger = logging.getLogger("stoker.bedrock")


class Ask(NamedTuple):
    """What a stand wants."""

    queues: tuple[str, ...]
    rank: int | None
    wanted: int
    waits: bool
    """Whether somebody there waits, so that the next due time matters."""


class Handout(NamedTuple):
    """A job that was started, and how it is shown."""

    job: Job
    body: bytes


class Found(NamedTuple):
    """What a stand got."""

    handouts: Sequence[Handout]
    next_due: int | None = None
    """When the next job falls due, if it matters."""


class Issue:
    """Hands jobs out, and takes them back."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._in_doubt: set[int] = set()
        self._untaken: deque[Job] = deque()

    def serve(self, asks: list[Ask]) -> list[Found | BaseException]:
        """Claim for all who ask, in one step."""
        asked_at = self._desk.store.now()
        claims = [self._desk.dispatch.request(ask.queues, ask.wanted) for ask in asks]
        try:
            taken = self._started(asks, claims)
            short = [i for i, ask in enumerate(asks) if len(taken[i]) < ask.wanted]
            if short and recover(self._desk.clerk):
                # Leases have ended: what was given out in vain can be given out again.
                for i, jobs in zip(short, self._more(asks, claims, taken, short), strict=True):
                    taken[i] += jobs
        except Exception:
            self._in_doubt.update(claim.token for claim in claims)
            raise
        return [self._found(*each, asked_at) for each in zip(asks, claims, taken, strict=True)]

    def _more(
        self, asks: list[Ask], claims: list[Claim], taken: list[list[Job]], short: list[int]
    ) -> list[list[Job]]:
        """The same claims again, for what is missing."""
        rests = [asks[i]._replace(wanted=asks[i].wanted - len(taken[i])) for i in short]
        tokens = [claims[i].token for i in short]
        again = [
            Claim(self._desk.dispatch.request(rest.queues, rest.wanted).queues, rest.wanted, token)
            for rest, token in zip(rests, tokens, strict=True)
        ]
        return self._started(rests, again)

    def _started(self, asks: list[Ask], claims: list[Claim]) -> list[list[Job]]:
        usual = [claim for ask, claim in zip(asks, claims, strict=True) if ask.rank is None]
        grants = iter(self._desk.report.many((), usual)[1] if usual else ())
        return [
            self._desk.dispatch.granted(next(grants))
            if ask.rank is None
            else self._desk.byhand.take_of_rank(claim, ask.rank)
            for ask, claim in zip(asks, claims, strict=True)
        ]

    def _found(
        self, ask: Ask, claim: Claim, jobs: list[Job], asked_at: int
    ) -> Found | BaseException:
        try:
            handouts = [self._handed(job) for job in jobs]
            due = None
            if ask.waits and len(jobs) < ask.wanted:
                due = self._desk.dispatch.next_due(ask.queues, asked_at)
        except Exception as error:  # noqa: BLE001 - told to those who asked
            self._in_doubt.add(claim.token)
            return error
        return Found(handouts, due)

    def _handed(self, job: Job) -> Handout:
        lease = words.exact_lease(job)
        if lease is not None:
            with suppress(Refused):  # taken away in this very moment: its next holder will be told
                job = self._desk.report.touch(job, visibility=lease)
        return Handout(job, words.encoded(described(self._desk, job)))

    # -- what nobody took ------------------------------------------------------------------

    @property
    def troubled(self) -> bool:
        """Is there anything to be put right?"""
        return bool(self._in_doubt or self._untaken)

    def give_back(self, jobs: Sequence[Job]) -> None:
        """Nobody was there to take them: they keep their place, and no try is counted."""
        try:
            self._desk.report.many([(job, Released()) for job in jobs])
        except Exception:
            self._untaken.extend(jobs)
            raise

    def put_right(self) -> None:
        """Give back what nobody took and what nobody knows of, if the store allows it by now."""
        tokens = self._in_doubt.copy()
        if tokens:
            self._untaken.extend([job for job in self._running() if job.token in tokens])
            self._in_doubt -= tokens
        untaken = [self._untaken.popleft() for _ in range(len(self._untaken))]
        if untaken:
            logger.warning("%d jobs that were not handed over go back", len(untaken))
            self.give_back(untaken)

    def _running(self) -> Iterator[Job]:
        return every(self._desk.store, Filter(states=(RUNNING,)))
