"""Limits that code declares for its tasks.

They reach the settings of the task's queue when they are declared, and again when the code says
something else. What was declared last is kept in a note: as long as the code says the same, the
settings are the operator's, who may change them at any time.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stoker.desk.clerk import Clerk
from stoker.desk.settings import Settings
from stoker.kernel.change import Change, NoteWrite
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import Rate

_DECLARED = "task-limits:"


class TaskLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much of a task may run at once, and how much of it may start in a time."""

    limit: float | None = None
    rate: Rate | None = None


NO_LIMITS = TaskLimits()
_REGISTER = msgspec.json.Decoder(dict[str, TaskLimits])


class Limits:
    """Brings what is declared into the settings of queues."""

    def __init__(self, clerk: Clerk, settings: Settings) -> None:
        self._clerk = clerk
        self._settings = settings

    def ensure(self, queue: str, wanted: Mapping[str, TaskLimits]) -> list[str]:
        """Set the limits of a queue's tasks that are not declared as they were; returns whose."""
        if not self._news(queue, wanted):
            return []
        with self._settings.alone():
            news = self._news(queue, wanted)
            # First the settings: whoever dies now leaves a note that lets it be done again.
            self._settings.change_alone(queue, lambda before: _with(before, news))
            self._tell(queue, {**self._told(queue), **news})
        return sorted(news)

    def _news(self, queue: str, wanted: Mapping[str, TaskLimits]) -> dict[str, TaskLimits]:
        told = self._told(queue)
        return {
            task: limits for task, limits in wanted.items() if told.get(task, NO_LIMITS) != limits
        }

    def _told(self, queue: str) -> dict[str, TaskLimits]:
        note = self._clerk.store.notes([_DECLARED + queue]).get(_DECLARED + queue)
        return {} if note is None else _REGISTER.decode(note.value)

    def _tell(self, queue: str, told: Mapping[str, TaskLimits]) -> None:
        kept = {task: limits for task, limits in told.items() if limits != NO_LIMITS}
        value = msgspec.json.encode(kept) if kept else None
        self._clerk.transact([Change(notes=(NoteWrite(_DECLARED + queue, value),))])


def _with(settings: QueueSettings, news: Mapping[str, TaskLimits]) -> QueueSettings:
    tasks = {task: limit for task, limit in settings.tasks.items() if task not in news}
    rates = {task: rate for task, rate in settings.task_rates.items() if task not in news}
    tasks |= {task: each.limit for task, each in news.items() if each.limit is not None}
    rates |= {task: each.rate for task, each in news.items() if each.rate is not None}
    return msgspec.structs.replace(settings, tasks=tasks, task_rates=rates)
