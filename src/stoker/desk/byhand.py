"""For callers that know a job by its id and hold no lease: operators, and doors without tokens.

Each method prepares a Decision, and `settle` carries many of them out in one durable step. The
caller's *terms* look at the job as it is when the decision is made: they may refuse, by raising,
and name facts to be set in the same step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from stoker.desk.clerk import Clerk, Decision, Result
from stoker.kernel import byhand, control
from stoker.kernel.byhand import Facts
from stoker.kernel.change import Change
from stoker.kernel.job import CANCELLED, FINISHED, QUEUED, Job, place
from stoker.store import Claim, Filter

Terms = Callable[[Job], Facts]

_PAGE = 500


class ByHand:
    """Deciding about jobs without their leases, and starting one out of turn."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk

    def settle(self, decisions: Sequence[Decision]) -> list[Result]:
        """Carry out decisions, each on its own."""
        return self._clerk.decide_all(decisions).results

    def finish(
        self, job_id: int, terms: Terms, *, repeat: bool = True, anyway: bool = False
    ) -> Decision:
        """The work is done; ended children go with it. `anyway`: also if it does not run."""

        def rule(job: Job) -> Change:
            facts = terms(job)
            return byhand.finish(
                job,
                self.ended_children(job),
                now=self._clerk.store.now(),
                facts=facts,
                repeat=repeat,
                anyway=anyway,
                settings=self._clerk.settings(job.queue),
            )

        return Decision(job_id, rule)

    def retry(
        self, job_id: int, terms: Terms, *, at: int, repeat: bool = True, anyway: bool = False
    ) -> Decision:
        """Run again: by its repeat, else at `at`. `anyway`: also if it does not run."""

        def rule(job: Job) -> Change:
            facts = terms(job)
            kin = self.ended_children(job)
            now = self._clerk.store.now()
            return byhand.retry(job, kin, now=now, at=at, facts=facts, repeat=repeat, anyway=anyway)

        return Decision(job_id, rule)

    def fail(self, job_id: int, terms: Terms, *, reason: str) -> Decision:
        """The job has failed for good."""

        def rule(job: Job) -> Change:
            facts, now = terms(job), self._clerk.store.now()
            settings = self._clerk.settings(job.queue)
            return byhand.fail(job, now=now, reason=reason, facts=facts, settings=settings)

        return Decision(job_id, rule)

    def cancel(self, job_id: int, terms: Terms) -> Decision:
        """Cancel a job that has not started."""

        def rule(job: Job) -> Change:
            terms(job)
            now, settings = self._clerk.store.now(), self._clerk.settings(job.queue)
            return control.cancel(job, now=now, settings=settings)

        return Decision(job_id, rule)

    def delete(self, job_id: int, terms: Terms) -> Decision:
        """Remove all trace of a job, also of one whose lease would end by itself."""

        def rule(job: Job) -> Change:
            terms(job)
            return byhand.discard(job)

        return Decision(job_id, rule)

    def requeue(self, job_id: int, terms: Terms, *, uncounted: bool = False) -> Decision:
        """Back into the queue from wherever it is, to the place of its arrival."""

        def rule(job: Job) -> Change:
            facts, now = terms(job), self._clerk.store.now()
            return byhand.requeue(job, now=now, at=job.created_at, facts=facts, uncounted=uncounted)

        return Decision(job_id, rule)

    def amend(self, job_id: int, terms: Terms) -> Decision:
        """Change what the job is about, and where it stands in line now or next."""
        return Decision(job_id, lambda job: byhand.amend(job, terms(job)))

    def ended_children(self, job: Job) -> list[Job]:
        """Children that have finished or were cancelled; failed ones stay for all to see."""
        if not (job.finished_children or job.cancelled_children):
            return []
        ended = Filter(states=(FINISHED, CANCELLED), parent_id=job.id, limit=_PAGE)
        return list(self._all(ended))

    def take_of_rank(self, claim: Claim, rank: int) -> list[Job]:
        """Start due jobs of one rank, though others may stand before them.

        No store can do that: it looks at all queued jobs of these queues.
        """
        clerk, now = self._clerk, self._clerk.store.now()
        queued = (job for queue in claim.queues for job in self._all(_queued(queue)))
        due = (job for job in queued if job.rank == rank and job.due_at <= now)
        taken: list[Job] = []
        for job in sorted(due, key=place):
            begun = Decision(job.id, lambda copy: byhand.begin(copy, now=now, token=claim.token))
            results = clerk.decide_all([begun]).results
            taken += [started for started in results if isinstance(started, Job)]
            if len(taken) == claim.limit:
                break
        return taken

    def _all(self, query: Filter) -> Iterator[Job]:
        while page := self._clerk.store.find(query):
            yield from page
            query = _after(query, page[-1])


def _queued(queue: str) -> Filter:
    return Filter(states=(QUEUED,), queue=queue, limit=_PAGE)


def _after(query: Filter, seen: Job) -> Filter:
    return Filter(
        states=query.states,
        queue=query.queue,
        parent_id=query.parent_id,
        after=seen.id,
        limit=query.limit,
    )
