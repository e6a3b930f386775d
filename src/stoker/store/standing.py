"""Claims that stand: an idle worker leaves word of what it wants, and a new job that nobody is
ahead of is taken in as one that this worker runs. So it needs one commit, and not two, until it
does, and nobody else has to be woken for it.

A standing claim is no more than a hint, and an engine may forget it or pay no heed. It is over when
it was served, and when its session makes another claim or ends; the same claim again lets it stand.
A worker hears of what was started for it by a ring of its own, which may bring the job along; if
that was lost, the job is found among those that the session holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.kernel import rules
from stoker.kernel.change import Change
from stoker.kernel.job import Job
from stoker.kernel.policy import OnLost
from stoker.kernel.queue import QueueSettings
from stoker.store import Claim
from stoker.store.lone import lone_job


def newcomer_of(changes: Sequence[Change], claims: Sequence[Claim], now: int) -> Job | None:
    """The new job that is all of this call, if it may start at once.

    >>> newcomer_of([Change(inserts=(Job("mail"),))], (), now=0).queue
    'mail'
    >>> newcomer_of([Change(inserts=(Job("mail", due_at=1),))], (), now=0) is None
    True
    """
    job = None if claims else lone_job(changes)
    return job if job is not None and may_start_at_once(job, now) else None


def may_start_at_once(job: Job, now: int) -> bool:
    """Is a job due, and not one to run at most once? Whoever left word may have died since."""
    return job.due_at <= now and job.policy.on_lost is OnLost.REQUEUE


def lets_start_at_once(settings: QueueSettings) -> bool:
    """Does a queue let jobs start without being asked?"""
    return not settings.limited and not settings.paused


def started_for(claim: Claim, job: Job, now: int) -> Job:
    """The job as it runs for whoever left the claim."""
    return rules.start(
        job, now=now, token=claim.token, session=claim.session, visibility=claim.visibility
    )
