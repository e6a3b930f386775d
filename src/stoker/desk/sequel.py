"""A job and its sequel: another job that runs when the first one has ended, however it ended.

The sequel is the parent, so no new rule is needed: it waits for its only child, and is woken by
that one's end, whoever brings it about. It can look at its child for what became of it.
"""

from __future__ import annotations

from contextlib import suppress

from stoker.desk.clerk import Clerk
from stoker.errors import BadInput, Contended, IllegalMove, NotFound, StokerError
from stoker.kernel import control, family
from stoker.kernel.change import Change
from stoker.kernel.job import Job

_ROUNDS = 5


def enqueue_with_sequel(clerk: Clerk, job: Job, sequel: Job) -> int:
    """Take in both; gives the id of the first one. The sequel runs without a child if we die on
    the way: it then has nothing to tell."""
    if job.policy.repeat is not None:
        raise BadInput("a job that repeats never ends, and so has no sequel")
    for _ in range(_ROUNDS):
        now = clerk.store.now()
        draft = control.enqueue(job, now=now, due_at=job.due_at or None).inserts[0]
        waiting = family.expectant(control.enqueue(sequel, now=now).inserts[0])
        parent_id = clerk.transact([Change(inserts=(waiting,))]).receipts[0].ids[0]
        born: list[int] = []
        try:
            clerk.decide(parent_id, lambda parent: family.spawn(parent, (draft,)), None, born)  # noqa: B023
        except (IllegalMove, NotFound):
            continue  # the night watch took it for one whose children are done
        except StokerError:
            with suppress(StokerError):
                clerk.decide(parent_id, control.delete)
            raise
        return born[0]
    raise Contended("the job and its sequel could not be brought together; try again")
