"""Limits that code declares for its tasks.

They reach the settings of the task's queue when they are declared, and again when the code says
something else. What was declared last is kept in a note: as long as the code says the same, the
settings are the operator's, who may change them at any time.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stoker.desk.clerk import Clerk
from stoker.desk.control import Control
from stoker.errors import Contended
from stoker.kernel.change import Change, NoteWrite
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import Rate

_DECLARED = "task-limits:"
_ROUNDS = 20


class TaskLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much of a task may run at once, and how much of it may start in a time."""

    limit: float | None = None
    rate: Rate | None = None


NO_LIMITS = TaskLimits()
_REGISTER = msgspec.json.Decoder(dict[str, TaskLimits])


class Limits:
    """Brings what is declared into the settings of queues."""

    def __init__(self, clerk: Clerk, control: Control) -> None:
        self._clerk = clerk
        self._control = control

    def ensure(self, queue: str, wanted: Mapping[str, TaskLimits]) -> list[str]:
        """Set the limits of a queue's tasks that are not declared as they were; returns whose."""
        for _ in range(_ROUNDS):
            told, revision = self._told(queue)
            news = {
                task: limits
                for task, limits in wanted.items()
                if told.get(task, NO_LIMITS) != limits
            }
            if not news:
                return []
            # First the settings: whoever dies now leaves a note that lets it be done again.
            self._set(queue, news)
            if self._tell(queue, {**told, **news}, revision):
                return sorted(news)
        raise Contended(f"the limits of tasks in the queue {queue!r} keep changing; try again")

    def _set(self, queue: str, news: Mapping[str, TaskLimits]) -> None:
        self._clerk.forget_settings(queue)
        settings = _with(self._clerk.settings(queue), news)
        self._control.adjust(queue, tasks=settings.tasks, task_rates=settings.task_rates)

    def _told(self, queue: str) -> tuple[dict[str, TaskLimits], int]:
        note = self._clerk.store.notes([_DECLARED + queue]).get(_DECLARED + queue)
        return ({}, 0) if note is None else (_REGISTER.decode(note.value), note.revision)

    def _tell(self, queue: str, told: Mapping[str, TaskLimits], revision: int) -> bool:
        kept = {task: limits for task, limits in told.items() if limits != NO_LIMITS}
        value = msgspec.json.encode(kept) if kept else None
        note = NoteWrite(_DECLARED + queue, value, expect=revision)
        return self._clerk.transact([Change(notes=(note,))]).receipts[0].ok


def _with(settings: QueueSettings, news: Mapping[str, TaskLimits]) -> QueueSettings:
    tasks = {task: limit for task, limit in settings.tasks.items() if task not in news}
    rates = {task: rate for task, rate in settings.task_rates.items() if task not in news}
    tasks |= {task: each.limit for task, each in news.items() if each.limit is not None}
    rates |= {task: each.rate for task, each in news.items() if each.rate is not None}
    return msgspec.structs.replace(settings, tasks=tasks, task_rates=rates)
