"""Jobs that belong together: a chain, or many at once with one that follows when all have ended.

A chain is taken in as one job, which knows its steps. Of a gathering the parent comes first, since
its children need its id, but only as a place that is soon gone again: it becomes a parent in the
same step in which all of its children come.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from stoker.desk.clerk import Clerk, twin_error
from stoker.errors import BadInput, Contended, Refused, StokerError
from stoker.kernel import control, family, flow
from stoker.kernel.change import Change, Copies, kinds
from stoker.kernel.flow import Step
from stoker.kernel.job import Job
from stoker.kernel.queue import Retention

_ROUNDS = 5
_RESERVED = 60 * 1_000_000
_REPLACE = msgspec.structs.replace


class Flows:
    """Taking in what consists of several jobs."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk

    def chain(self, steps: Sequence[Step]) -> int:
        """Take in steps of which each is made when the one before has finished; gives the chain's
        id. It is durable when this returns."""
        return self._begin(flow.chain([self._kept(step) for step in steps]))

    def gather(self, children: Sequence[Job], then: Job | None = None) -> int:
        """Take in jobs all or none, and one that runs when all have ended, however they ended;
        gives its id. Without `then` it is one that just counts how they ended."""
        for job in kinds(children):
            flow.check_member(job)
        if then is not None and (then.policy.repeat or then.unique_key or then.ref):
            raise BadInput(
                "what follows a group can neither repeat nor have a unique key or reference: it "
                "belongs to this group alone"
            )
        if not children:
            return self._after_nothing(then)
        return self._bring_together(then or Job(children[0].queue, flow.GROUP), children)[0]

    def with_sequel(self, job: Job, sequel: Job) -> int:
        """Take in a job, and one that runs when it has ended, however it ended; gives the id of
        the first one."""
        if job.policy.repeat is not None:
            raise BadInput("a job that repeats never ends, and so has no sequel")
        return self._bring_together(sequel, [job])[1][0]

    def _bring_together(self, then: Job, jobs: Sequence[Job]) -> tuple[int, Sequence[int]]:
        """A parent and its children; gives their ids."""
        now = self._clerk.store.now()
        parent, children = _draft(then, now), _drafts(jobs, now)
        for _ in range(_ROUNDS):
            reserved = family.reserve(parent, until=self._clerk.store.now() + _RESERVED)
            place_id = self._clerk.transact([Change(inserts=(reserved,))]).receipts[0].ids[0]
            place = _REPLACE(reserved, id=place_id)
            try:
                change = family.gather(place, parent, children)
                receipt = self._clerk.transact([change]).receipts[0]
                if receipt.ok:
                    return place_id, receipt.ids
                if receipt.twins:
                    raise twin_error(receipt)
            except (BadInput, Refused):
                with suppress(StokerError):  # it would go by itself, only later
                    self._clerk.decide(place_id, control.delete)
                raise
        raise Contended("the jobs could not be brought together with what follows; try again")

    def _after_nothing(self, then: Job | None) -> int:
        """No children have all ended at once."""
        if then is None:
            return self._begin(Job("default", flow.GROUP))
        change = Change(inserts=(_draft(then, self._clerk.store.now()),))
        return self._clerk.transact([change]).receipts[0].ids[0]

    def _begin(self, job: Job) -> int:
        begun = flow.begun(_draft(job, self._clerk.store.now()))
        job_id = self._clerk.transact([Change(inserts=(begun,))]).receipts[0].ids[0]
        self._clerk.resume([_REPLACE(begun, id=job_id)])
        return job_id

    def _kept(self, step: Step) -> Step:
        """A step is kept a while in any case: its result may be the next one's argument."""
        retention = step.policy.retention or self._clerk.settings(step.queue).retention
        if retention.finished != 0 and retention.failed != 0:
            return step
        return _REPLACE(step, policy=_REPLACE(step.policy, retention=Retention()))


def _draft(job: Job, now: int) -> Job:
    return control.enqueue(job, now=now, due_at=job.due_at or None).inserts[0]


def _drafts(jobs: Sequence[Job], now: int) -> Sequence[Job]:
    if isinstance(jobs, Copies):
        return Copies(_draft(jobs.template, now), jobs.payloads)
    return [_draft(job, now) for job in jobs]
