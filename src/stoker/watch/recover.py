"""Recover: jobs whose lease or wait is over, and schedules whose hour has struck."""

from __future__ import annotations

from stoker.desk.clerk import Clerk
from stoker.kernel import family, rules
from stoker.kernel.change import Change
from stoker.kernel.job import WAITS_FOR_TICK, Job
from stoker.store import Filter, Lost


def recover(clerk: Clerk) -> int:
    """Move lost jobs on, by their own policy, and retire sessions that hold nothing any more.

    A job that moved meanwhile is left alone: judged on a fresh copy it might not be lost at all.
    """
    lost = clerk.store.find(Lost())
    moved = sum(receipt.ok for receipt in clerk.attempt([_judged(clerk, job) for job in lost]))
    _retire_the_dead(clerk)
    return moved


def _judged(clerk: Clerk, job: Job) -> Change:
    now = clerk.store.now()
    if job.waits_for == WAITS_FOR_TICK:
        return family.tick(job, now=now)
    return rules.expire(job, now=now, dice=clerk.dice(), settings=clerk.settings(job.queue))


def _retire_the_dead(clerk: Clerk) -> None:
    now = clerk.store.now()
    for session in clerk.store.sessions():
        if session.expires_at <= now and not clerk.store.find(Filter(session=session.id, limit=1)):
            clerk.store.retire(session.id)
