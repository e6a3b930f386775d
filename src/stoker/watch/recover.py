"""Recover: jobs whose lease or wait is over, and schedules whose hour has struck."""

from __future__ import annotations

import logging

from stoker.desk.clerk import Clerk
from stoker.errors import StokerError
from stoker.kernel import family, rules
from stoker.kernel.change import NOTHING, Change
from stoker.kernel.job import WAITS_FOR_TICK, Job
from stoker.store import Filter, Lost

logger = logging.getLogger(__name__)


def recover(clerk: Clerk) -> int:
    """Move lost jobs on, by their own policy, and retire sessions that hold nothing any more.

    A job that moved meanwhile is left alone: judged on a fresh copy it might not be lost at all.
    """
    lost = clerk.store.find(Lost())
    moved = sum(receipt.ok for receipt in clerk.attempt([_judged(clerk, job) for job in lost]))
    _retire_the_dead(clerk)
    return moved


def _judged(clerk: Clerk, job: Job) -> Change:
    now, settings = clerk.store.now(), clerk.settings(job.queue)
    try:
        if job.waits_for == WAITS_FOR_TICK:
            return family.tick(job, now=now, settings=settings)
        return rules.expire(job, now=now, dice=clerk.dice(), settings=settings)
    except StokerError:
        # One job nobody can judge must not keep all others from being recovered.
        logger.exception("job %d is lost, but cannot be recovered", job.id)
        return NOTHING


def _retire_the_dead(clerk: Clerk) -> None:
    now = clerk.store.now()
    for session in clerk.store.sessions():
        if session.expires_at <= now and not clerk.store.find(Filter(session=session.id, limit=1)):
            clerk.store.retire(session.id)
