"""One new job and nothing else: what most callers bring. Engines have a way of their own for it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from msgspec.structs import astuple

from stoker.kernel.change import Change
from stoker.kernel.job import Job

OWN_FACTS = frozenset(
    {
        *("queue", "name", "payload", "format", "rank", "due_at", "policy", "created_at"),
        *("scheduled_at", "weight", "key", "meta"),
    }
)
"""What such a job may have of its own; all other facts are as by default."""
_FACTS = Job.__struct_fields__
_others = itemgetter(*(at for at, fact in enumerate(_FACTS) if fact not in OWN_FACTS))
_UNBORN = _others(astuple(Job("")))

_NOTHING_ELSE = astuple(Change())[1:]


def is_unborn(job: Job) -> bool:
    """Is it a new job without a name of its own, without a parent, and queued?"""
    return bool(_others(astuple(job)) == _UNBORN)


def lone_job(changes: Sequence[Change]) -> Job | None:
    """The new job that is all of these changes, if it is one that nothing more is to be said of
    than what it is about.

    >>> lone_job([Change(inserts=(Job("mail", key="ann"),))]).key
    'ann'
    >>> lone_job([Change(inserts=(Job("mail", unique_key="ann"),))]) is None
    True
    """
    if len(changes) != 1:
        return None
    (change,) = changes
    if len(change.inserts) != 1 or astuple(change)[1:] != _NOTHING_ELSE:
        return None
    job = change.inserts[0]
    return job if is_unborn(job) else None
