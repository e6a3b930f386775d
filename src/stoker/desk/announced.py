"""Steps that tell of themselves: what is to be rung out goes with the very commit.

The news of a step is a Change of notes and rings. What was refused is not announced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from stoker.desk.clerk import Clerk, Decision, Grants, Result, twin_error
from stoker.errors import StokerError
from stoker.kernel import control
from stoker.kernel.change import Change
from stoker.kernel.job import Job
from stoker.kernel.outcome import Outcome, change_for
from stoker.store import Claim, Receipt


class Arrival(NamedTuple):
    """New jobs of one caller, all or none."""

    jobs: Sequence[Job]
    news: Change


class Ending(NamedTuple):
    """What has come of a job that is held."""

    job: Job
    outcome: Outcome
    news: Change


class Announced:
    """Arrivals and ends with news, those of many callers in one step."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk

    def enqueue_each(self, arrivals: Sequence[Arrival]) -> list[Sequence[int] | StokerError]:
        """Take in the jobs of many callers: the ids given to each, or what stands in its way."""
        now = self._clerk.store.now()
        results: dict[int, Sequence[int] | StokerError] = {}
        changes: dict[int, Change] = {}
        for place, arrival in enumerate(arrivals):
            try:
                changes[place] = _drafted(arrival, now)
            except StokerError as error:
                results[place] = error
        if changes:
            receipts = self._clerk.transact([*changes.values()]).receipts
            for place, receipt in zip(changes, receipts, strict=True):
                results[place] = _outcome(receipt)
        return [results[place] for place in range(len(arrivals))]

    def report_each(
        self, endings: Sequence[Ending], claims: Sequence[Claim] = ()
    ) -> tuple[list[Result], Grants]:
        """Report on held jobs, each on its own, and claim others in the same step."""
        now = self._clerk.store.now()
        decisions = [
            Decision(ending.job.id, partial(self._ended, ending=ending, now=now), ending.job)
            for ending in endings
        ]
        decided = self._clerk.decide_all(decisions, claims)
        return decided.results, decided.grants

    def _ended(self, job: Job, ending: Ending, now: int) -> Change:
        clerk = self._clerk
        settings = clerk.settings(job.queue)
        change = change_for(job, ending.outcome, now=now, dice=clerk.dice(), settings=settings)
        return change | ending.news

    def cancel(self, job_ids: Iterable[int], news: Change) -> list[Result]:
        """Cancel those that have not started, ask the others to stop, and tell in any case."""
        return self._decided(job_ids, self._cancelled, news)

    def _cancelled(self, job: Job) -> Change:
        now, settings = self._clerk.store.now(), self._clerk.settings(job.queue)
        return control.cancel(job, now=now, settings=settings)

    def delete(self, job_ids: Iterable[int], news: Change) -> list[Result]:
        """Remove all trace of those that do not run, and tell in any case."""
        return self._decided(job_ids, control.delete, news)

    def _decided(
        self, job_ids: Iterable[int], rule: Callable[[Job], Change], news: Change
    ) -> list[Result]:
        decisions = [Decision(job_id, rule) for job_id in job_ids]
        return self._clerk.decide_all(decisions, along=news).results


def _drafted(arrival: Arrival, now: int) -> Change:
    drafts = (control.enqueue(job, now=now, due_at=job.due_at or None) for job in arrival.jobs)
    return Change(inserts=tuple(draft.inserts[0] for draft in drafts)) | arrival.news


def _outcome(receipt: Receipt) -> Sequence[int] | StokerError:
    return receipt.ids if receipt.ok else twin_error(receipt)
