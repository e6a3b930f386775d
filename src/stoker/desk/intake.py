"""Taking jobs in."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from stoker.desk.clerk import Clerk, twin_error
from stoker.desk.within import Attempts, adriven, driven, outside
from stoker.errors import BadInput, Contended
from stoker.kernel import control, family
from stoker.kernel.change import Change, Copies
from stoker.kernel.job import Job, State
from stoker.kernel.pacing import news
from stoker.store.twins import names_held

_REPLACE = msgspec.structs.replace
_ROUNDS = 20


class Twin(enum.Enum):
    """What to do with a new job whose name a job has already.

    >>> from stoker import Desk, open_store
    >>> desk = Desk(open_store("memory:"))
    >>> desk.intake.enqueue(Job("mail", unique_key="ann")).id
    1
    >>> desk.intake.enqueue(Job("mail", unique_key="ann"), twin=Twin.RETURN).id
    1
    >>> desk.intake.enqueue(Job("mail", unique_key="ann"), twin=Twin.REJECT)
    Traceback (most recent call last):
    stoker.errors.Duplicate: job 1 has the same unique key or reference
    """

    REJECT = "reject"
    RETURN = "return"
    """The job that is there stands for the new one."""
    UPDATE = "update"
    """So it does, and takes over payload, policy, rank and meta of the new one."""


class Placement(NamedTuple):
    """Where a new job ended up: its id, and whether it is new at all.

    >>> from stoker import Desk, open_store
    >>> desk = Desk(open_store("memory:"))
    >>> job = Job("mail", ref="order 7")
    >>> [desk.intake.enqueue(job, twin=Twin.RETURN).fresh for _ in range(2)]
    [True, False]
    """

    id: int
    fresh: bool


class Intake:
    """Enqueuing, one or many, alone or as children."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk

    def enqueue(self, job: Job, *, twin: Twin = Twin.REJECT) -> Placement:
        """Take in one job. It is durable when this returns; `due_at=0` means now."""
        return self.enqueue_many([job], twin=twin)[0]

    def enqueue_many(self, jobs: Sequence[Job], *, twin: Twin = Twin.REJECT) -> list[Placement]:
        """Take in jobs all or none, in one durable step."""
        attempts = self._placing(list(jobs), twin)
        return driven(attempts, lambda change: self._clerk.transact([change]).receipts[0])

    def enqueue_within(
        self, connection: object, jobs: Sequence[Job], *, twin: Twin = Twin.REJECT
    ) -> list[Placement]:
        """Take in jobs in a transaction of the caller's own: all of them when it commits, none if
        it does not."""
        store, attempts = outside(self._clerk.store), self._placing_within(jobs, twin)
        return driven(attempts, lambda change: store.commit_within(connection, change))

    async def aenqueue_within(
        self, connection: object, jobs: Sequence[Job], *, twin: Twin = Twin.REJECT
    ) -> list[Placement]:
        """The same for a connection that is awaited."""
        store, attempts = outside(self._clerk.store), self._placing_within(jobs, twin)
        return await adriven(attempts, lambda change: store.acommit_within(connection, change))

    def _placing_within(self, jobs: Sequence[Job], twin: Twin) -> Attempts[list[Placement]]:
        if twin is Twin.UPDATE:
            raise BadInput(
                "a job that is there cannot be updated in a transaction of your own; use "
                'if_exists="return" or "reject"'
            )
        return self._placing(list(jobs), twin)

    def _placing(self, jobs: list[Job], twin: Twin) -> Attempts[list[Placement]]:
        placements: dict[int, Placement] = {}
        aliases: dict[int, int] = {}
        left = list(range(len(jobs)))
        for _ in range(_ROUNDS):
            inserts = tuple(self._drafted(jobs[i]) for i in left)
            receipt = yield Change(inserts=inserts)
            if receipt.ok:
                fresh = (Placement(job_id, fresh=True) for job_id in receipt.ids)
                placements.update(zip(left, fresh, strict=True))
                for i, first in aliases.items():
                    placements[i] = Placement(placements[first].id, fresh=False)
                return [placements[i] for i in range(len(jobs))]
            if twin is Twin.REJECT:
                raise twin_error(receipt)
            singles = [i for at, i in enumerate(left) if at not in receipt.twins]
            for position, existing in receipt.twins.items():
                i = left[position]
                if existing:
                    self._meet(jobs[i], existing, twin)
                    placements[i] = Placement(existing, fresh=False)
                else:
                    aliases[i] = _alike(jobs, singles, jobs[i])
                    if twin is Twin.UPDATE:
                        jobs[aliases[i]] = _REPLACE(jobs[aliases[i]], **news(jobs[i]))
            left = [i for i in left if i not in placements and i not in aliases]
        raise Contended("the jobs' unique keys keep changing hands; try again")

    def enqueue_copies(self, template: Job, payloads: Sequence[bytes]) -> Sequence[int]:
        """Take in many jobs that differ in their payloads alone, all or none; gives their ids."""
        if template.unique_key is not None or template.ref is not None:
            raise BadInput("copies of a job cannot all have its unique key or reference")
        if not {*map(type, payloads)} <= {bytes}:
            raise BadInput("a payload must be bytes")
        copies = Copies(self._drafted(template), payloads)
        return self._clerk.transact([Change(inserts=copies)]).receipts[0].ids

    def spawn(self, parent: Job, children: Sequence[Job]) -> list[int]:
        """Children of a running or waiting job; `parent` is the worker's copy if it holds it."""
        drafts = tuple(self._drafted(child) for child in children)
        held = parent if parent.state is State.RUNNING else None
        given: list[int] = []
        self._clerk.decide(parent.id, lambda job: family.spawn(job, drafts), held, given)
        return given

    def _drafted(self, job: Job) -> Job:
        now = self._clerk.store.now()
        return control.draft(job, now=now, due_at=job.due_at or None)

    def _meet(self, job: Job, existing: int, twin: Twin) -> None:
        if twin is Twin.UPDATE:
            self._clerk.decide(existing, lambda there: _taken_over(there, news(job)))


def _taken_over(there: Job, facts: dict[str, Any]) -> Change:
    if there.state not in (State.QUEUED, State.WAITING):
        del facts["rank"]
    return control.edit(there, facts)


def _alike(jobs: Sequence[Job], singles: list[int], twin: Job) -> int:
    """Which of the jobs that are nobody's twin has a name in common with this one."""
    names = set(names_held(twin))
    return next(i for i in singles if names & set(names_held(jobs[i])))
