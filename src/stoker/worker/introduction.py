"""What a worker says of itself, for everybody who asks who is at work and why a job does not run.

It is said when a session begins. Again only when it is no longer true, as tasks have been added
since, and before what was said is forgotten: no beat costs more for it.
"""

from __future__ import annotations

import time

import msgspec

from stoker.desk import Desk
from stoker.desk.known_tasks import KEPT_FOR, tell
from stoker.desk.workers import WorkerInfo
from stoker.store import Session
from stoker.worker.tasks import Tasks

_TELL_EVERY = KEPT_FOR / 2 / 1e6


class Introduction:
    """One worker's words about itself."""

    def __init__(self, desk: Desk, tasks: Tasks, name: str, info: WorkerInfo) -> None:
        self._desk = desk
        self._tasks = tasks
        self._name = name
        self._info = info
        self._said: str | None = None
        self._told = 0
        self._tell_again = 0.0

    def open(self, *, ttl: int) -> int:
        """Begin a session that knows who we are."""
        told = self._tell_tasks()
        info = msgspec.json.encode(self._info).decode()
        session = self._desk.dispatch.open_session(self._name, info, ttl=ttl)
        self._note_told(told)
        return session

    def refresh(self, session: int, *, ttl: int) -> None:
        """Say it again under the same session, if that is due."""
        if len(self._tasks) == self._told and time.monotonic() < self._tell_again:
            return
        told = self._tell_tasks()
        if self._info.tasks != self._said:
            info = msgspec.json.encode(self._info).decode()
            self._desk.dispatch.say_anew(Session(session, self._name, info), ttl=ttl)
        self._note_told(told)

    def _tell_tasks(self) -> int:
        names = [task.name for task in self._tasks]
        mark = tell(self._desk.clerk, names)
        self._info = msgspec.structs.replace(self._info, tasks=mark)
        return len(names)

    def _note_told(self, told: int) -> None:
        self._said = self._info.tasks
        self._told, self._tell_again = told, time.monotonic() + _TELL_EVERY
