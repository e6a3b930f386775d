"""What may stand between a job and its run.

Doors render Blockers: the reason is a stable word, the text a sentence, and `until` is left as a
time so that everybody may write it in his own way.
"""

from __future__ import annotations

import enum

import msgspec


class Reason(enum.Enum):
    """Why a job does not run now. The values are stable words."""

    NOT_DUE = "not_due"
    RETRY = "retry"
    REPEATS = "repeats"
    WINDOW_CLOSED = "window_closed"
    QUEUE_CLOSED = "queue_closed"
    MAINTENANCE = "maintenance"
    QUEUE_PAUSED = "queue_paused"
    OUTER_PAUSED = "outer_paused"
    TASK_FULL = "task_full"
    KEY_FULL = "key_full"
    SHARE_FULL = "share_full"
    QUEUE_FULL = "queue_full"
    OUTER_FULL = "outer_full"
    TASK_RATE = "task_rate"
    KEY_RATE = "key_rate"
    QUEUE_RATE = "queue_rate"
    OUTER_RATE = "outer_rate"
    NO_WORKER = "no_worker"
    WORKERS_BUSY = "workers_busy"
    WORKERS_UNSEEN = "workers_unseen"
    UNKNOWN_TASK = "unknown_task"
    THROTTLED = "throttled"
    NO_THROTTLER = "no_throttler"
    THROTTLER_FAILS = "throttler_fails"
    IN_LINE = "in_line"
    TURNS = "turns"
    RUNNING = "running"
    CANCEL_REQUESTED = "cancel_requested"
    WORKER_LOST = "worker_lost"
    OUT_OF_TIME = "out_of_time"
    CHILDREN = "children"
    PARENT = "parent"
    REPLY = "reply"
    TICK = "tick"
    ENDED = "ended"


class Blocker(msgspec.Struct, frozen=True):
    """One thing that stands between a job and its run."""

    reason: Reason
    text: str
    until: int | None = None
    """When it is over by itself, if that is known."""
    jobs: tuple[int, ...] = ()
    """The jobs that make it so: those that hold the places, its children, its parent."""
    more: bool = False
    """Are there more such jobs than are named?"""
