"""What workers report about the jobs they hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from stoker.desk.clerk import Clerk, Decision, Result
from stoker.kernel import rules
from stoker.kernel.change import Change
from stoker.kernel.control import edit
from stoker.kernel.job import REPLY_PREFIX, Job
from stoker.kernel.outcome import Awaits, Failed, Finished, Outcome, Released, change_for
from stoker.kernel.retry import Failure, Verdict
from stoker.store import Claim


class Report:
    """Outcomes and signs of life. Each needs the worker's own copy of the job: its lease."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk

    def many(
        self, outcomes: Sequence[tuple[Job, Outcome]], claims: Sequence[Claim] = ()
    ) -> tuple[list[Result], Sequence[Sequence[Job] | None]]:
        """Report many at once, and claim the next ones in the same step."""
        # One moment for all: jobs that say the same are then written as one.
        now = self._clerk.store.now()
        decisions = [
            Decision(job.id, partial(self._change, outcome=outcome, now=now), job)
            for job, outcome in outcomes
        ]
        return self._clerk.decide_all(decisions, claims)

    def _change(self, job: Job, outcome: Outcome, now: int) -> Change:
        clerk = self._clerk
        kept = None
        if isinstance(outcome, Awaits):
            note = REPLY_PREFIX + outcome.key
            kept = clerk.store.notes([note]).get(note)
        return change_for(
            job,
            outcome,
            now=now,
            dice=clerk.dice(),
            settings=clerk.settings(job.queue),
            kept=kept,
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

    def wait(self, job: Job, awaits: Awaits) -> Job:
        """Wait for an answer from outside, holding no worker."""
        return self._one(job, awaits)
