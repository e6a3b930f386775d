"""What workers report about the jobs they hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from stoker.desk.clerk import Clerk, Decision, Grants, Result, after
from stoker.desk.within import outside
from stoker.kernel import answers, rules
from stoker.kernel.answers import NOTHING_EARLY
from stoker.kernel.change import NOTHING, Change
from stoker.kernel.control import edit, rename
from stoker.kernel.job import Job
from stoker.kernel.outcome import Awaits, Failed, Finished, Outcome, Released, change_for
from stoker.kernel.retry import Failure, Verdict
from stoker.store import Claim


class Report:
    """Outcomes and signs of life. Each needs the worker's own copy of the job: its lease."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk

    def many(
        self, outcomes: Sequence[tuple[Job, Outcome]], claims: Sequence[Claim] = ()
    ) -> tuple[list[Result | None], Grants]:
        """Report many at once, and claim the next ones in the same step.

        Gives for each the job as it is then, or what stood in its way; None: it has simply ended.
        """
        if claims and not outcomes:
            return [], self._clerk.transact((), claims).grants
        # One moment for all: jobs that say the same are then written as one.
        now = self._clerk.store.now()
        simple = _simple_ends(outcomes)
        others = _left_out(simple, len(outcomes))
        along = self._ended([outcomes[i] for i in simple], now)
        decided = self._clerk.decide_all(self._decisions(outcomes, others, now), claims, along)
        results: list[Result | None] = [None] * len(outcomes)
        _put(results, others, decided.results)
        if not decided.along:
            # Some job has moved on: ask about each on its own.
            apart = self._clerk.decide_all(self._decisions(outcomes, simple, now))
            _put(results, simple, apart.results)
        return results, decided.grants

    def _ended(self, outcomes: Sequence[tuple[Job, Outcome]], now: int) -> Change:
        by_queue: dict[str, list[tuple[Job, bytes | None]]] = defaultdict(list)
        for job, outcome in outcomes:
            assert type(outcome) is Finished
            by_queue[job.queue].append((job, outcome.result))
        change = NOTHING
        for queue, done in by_queue.items():
            ended = rules.finish_all(done, now=now, settings=self._clerk.settings(queue))
            change = ended if change is NOTHING else change | ended
        return change

    def _decisions(
        self, outcomes: Sequence[tuple[Job, Outcome]], places: Sequence[int], now: int
    ) -> list[Decision]:
        told = (outcomes[i] for i in places)
        return [
            Decision(job.id, partial(self._change, outcome=outcome, now=now), job)
            for job, outcome in told
        ]

    def _change(self, job: Job, outcome: Outcome, now: int) -> Change:
        clerk = self._clerk
        early = NOTHING_EARLY
        if isinstance(outcome, Awaits):
            early = answers.found(outcome.key, clerk.store.notes(answers.names(outcome.key)))
        return change_for(
            job,
            outcome,
            now=now,
            dice=clerk.dice(),
            settings=clerk.settings(job.queue),
            early=early,
        )

    def _one(self, job: Job, outcome: Outcome) -> Job:
        now = self._clerk.store.now()
        return self._clerk.decide(job.id, partial(self._change, outcome=outcome, now=now), job)

    def finish(
        self,
        job: Job,
        result: bytes | None = None,
        *,
        payload: bytes | None = None,
        repeat: bool = True,
    ) -> Job:
        """The work is done."""
        return self._one(job, Finished(result, payload, repeat))

    def finish_within(self, connection: object, job: Job, result: bytes | None = None) -> Job:
        """The work is done, if the caller's own transaction commits; it fails if the lease is
        lost."""
        change = self._change(job, Finished(result), self._clerk.store.now())
        outside(self._clerk.store).commit_within(connection, change)
        return after(job, change)

    async def afinish_within(
        self, connection: object, job: Job, result: bytes | None = None
    ) -> Job:
        """The same for a connection that is awaited."""
        change = self._change(job, Finished(result), self._clerk.store.now())
        await outside(self._clerk.store).acommit_within(connection, change)
        return after(job, change)

    def fail(
        self, job: Job, failure: Failure, *, verdict: Verdict | None = None, repeat: bool = True
    ) -> Job:
        """The try was spoilt; without a verdict the job's retry policy decides."""
        return self._one(job, Failed(failure, verdict, repeat))

    def release(self, job: Job, *, due_at: int | None = None, payload: bytes | None = None) -> Job:
        """Give the job back, now or put off; no try is counted."""
        return self._one(job, Released(due_at, payload))

    def touch(
        self, job: Job, *, visibility: int | None = None, progress: float | None = None
    ) -> Job:
        """A sign of life: a later deadline, progress, or both."""
        return self._clerk.decide(
            job.id,
            lambda copy: rules.touch(
                copy, now=self._clerk.store.now(), visibility=visibility, progress=progress
            ),
            job,
        )

    def rewrite(self, job: Job, payload: bytes) -> Job:
        """Give the job another payload while it runs, for the tries to come."""
        return self._clerk.decide(job.id, lambda copy: edit(copy, {"payload": payload}), job)

    def rename(self, job: Job, unique_key: str) -> Job:
        """Give the job another unique key while it runs; refused if a living job has it."""
        return self._clerk.decide(job.id, lambda copy: rename(copy, unique_key), job)

    def wait(self, job: Job, awaits: Awaits) -> Job:
        """Wait for an answer from outside, holding no worker."""
        return self._one(job, awaits)


def _simple_ends(outcomes: Sequence[tuple[Job, Outcome]]) -> list[int]:
    """The places of reports that one Change can hold: jobs that just end, none of them twice."""
    simple = [
        i
        for i, (job, outcome) in enumerate(outcomes)
        if type(outcome) is Finished and outcome.payload is None and rules.simply_ends(job)
    ]
    distinct = {outcomes[i][0].id for i in simple}
    return simple if len(distinct) == len(simple) else []


def _left_out(places: Sequence[int], count: int) -> list[int]:
    """The places of so many that are not among these."""
    return [] if len(places) == count else sorted(set(range(count)).difference(places))


def _put(results: list[Result | None], places: Sequence[int], found: Sequence[Result]) -> None:
    for i, result in zip(places, found, strict=True):
        results[i] = result
