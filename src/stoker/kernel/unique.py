"""Unique keys that stand for more than one word: no two of them are equal by chance.

A colon parts what they are made of. In the name of a task it is written otherwise, and so is the
name that begins the keys of schedules; all other names stand in the key as they are.
"""

from __future__ import annotations

from stoker.errors import BadInput

_SCHEDULE = "schedule"

SCHEDULE_PREFIX = f"{_SCHEDULE}:"
"""Begins the unique key of a schedule that belongs to a task."""


def unique_key(task: str, word: str) -> str:
    """The key of a task's jobs that are called by this word.

    >>> unique_key("shop.sync", "mail:ann"), unique_key("shop:mail", "ann")
    ('shop.sync:mail:ann', 'shop%3Amail:ann')
    >>> unique_key("schedule", "sync") == schedule_key("sync")
    False
    """
    if not word:
        raise BadInput("unique cannot be empty; give a word, or leave it out altogether")
    name = task.replace("%", "%25").replace(":", "%3A")
    return f"%{name}:{word}" if name == _SCHEDULE else f"{name}:{word}"


def schedule_key(task: str) -> str:
    """The key of a task's schedule.

    >>> schedule_key("shop.sync")
    'schedule:shop.sync'
    """
    return SCHEDULE_PREFIX + task
