"""Handlers in processes of their own: for work that holds the interpreter, or must be stoppable.

Each runner thread keeps one child process and hands it one job at a time. Stopping a handler by
force ends its process; a process that dies by itself has taken its job down with it, and counts as
a lost worker. One that still starts when its first job's time is up is left alone, so that the next
finds it ready: else a task that takes longer to import than it may run would never run.
"""

from __future__ import annotations

import importlib
import multiprocessing
import operator
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import msgspec

from stoker.desk import Desk
from stoker.errors import StokerError
from stoker.kernel.job import Job
from stoker.kernel.outcome import Crashed, Outcome
from stoker.worker.context import Context
from stoker.worker.crews import Assignment, Done, ThreadCrew
from stoker.worker.performing import Performer, stopped
from stoker.worker.tasks import Definition

_SPAWN = multiprocessing.get_context("spawn")
_LOOK_AGAIN = 0.1
"""Seconds, while a process starts: is anybody still waiting for it?"""


class Order(msgspec.Struct, frozen=True):
    """What a child is told: which function, and which job. None: be ready for one."""

    module: str
    function: str
    job: Job | None = None


_ORDERS = msgspec.msgpack.Decoder(Order)
_OUTCOMES = msgspec.msgpack.Decoder(Outcome | None)
_ENCODE = msgspec.msgpack.Encoder().encode


class _Child:
    """One process that runs handlers for one runner."""

    def __init__(self) -> None:
        self.pipe, theirs = _SPAWN.Pipe()
        self.process: SpawnProcess = _SPAWN.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self._imported: set[str] = set()
        self._importing: str | None = None

    def run(self, order: Order) -> Outcome | None:
        self.pipe.send_bytes(_ENCODE(order))
        outcome: Outcome | None = _OUTCOMES.decode(self.pipe.recv_bytes())
        return outcome

    def is_ready(self, order: Order, context: Context) -> bool:
        """Has it what it needs for this function? Waits for that until the job is to stop."""
        while self._importing is not None or order.module not in self._imported:
            if self._importing is None:
                self.pipe.send_bytes(_ENCODE(Order(order.module, order.function)))
                self._importing = order.module
            while not self.pipe.poll(_LOOK_AGAIN):
                if context.stop_reason is not None:
                    return False
            self.pipe.recv_bytes()
            self._imported.add(self._importing)
            self._importing = None
        return True

    def kill(self) -> None:
        self.process.kill()


class _Remote:
    """Runs a handler in this thread's child process."""

    def __init__(self, performer: Performer) -> None:
        self._performer = performer.only(in_worker=True)
        self._local = threading.local()
        self.children: dict[int, _Child] = {}

    def run(self, task: Definition, context: Context) -> Outcome | None:
        return self._performer.around(task, context, lambda: self._run(task, context))

    def _run(self, task: Definition, context: Context) -> Outcome | None:
        child, job, function = self._child(), context.job, task.function
        order = Order(function.__module__, function.__qualname__, job)
        try:
            if child.is_ready(order, context):
                self.children[job.id] = child
            if context.stop_reason is not None:
                return stopped(job, context.stop_reason)  # it was too late to begin
            return child.run(order)
        except (EOFError, OSError):
            self._local.child = None
            child.process.join()
            if context.stop_reason is not None:
                return stopped(job, context.stop_reason)
            return Crashed(f"its process ended with code {child.process.exitcode}")
        finally:
            self.children.pop(job.id, None)

    def _child(self) -> _Child:
        child: _Child | None = getattr(self._local, "child", None)
        if child is None or not child.process.is_alive():
            child = self._local.child = _Child()
        return child


class ProcessCrew(ThreadCrew):
    """Sync handlers, each runner a thread with a process."""

    def __init__(self, performer: Performer, runners: int, done: Done) -> None:
        self._remote = _Remote(performer)
        super().__init__(self._remote, runners, done)

    def interrupt(self, assignment: Assignment) -> bool:
        child = self._remote.children.get(assignment.context.job.id)
        if child is None:
            return False
        child.kill()
        return True


def _serve(pipe: Connection) -> None:
    """The child's life: order in, outcome out, until the pipe closes."""
    threading.Thread(target=_end_with_the_worker, daemon=True).start()
    performers: dict[int, Performer] = {}
    while True:
        try:
            order = _ORDERS.decode(pipe.recv_bytes())
        except EOFError:
            return
        task, desk, middleware = _find(order)
        if order.job is None:
            pipe.send_bytes(_ENCODE(None))
            continue
        if id(desk) not in performers:
            performers[id(desk)] = Performer(desk.store.now, middleware).only(in_worker=False)
        outcome = performers[id(desk)].run(task, Context(order.job, desk))
        pipe.send_bytes(_ENCODE(outcome))


def _end_with_the_worker() -> None:
    """A handler that goes on when its worker has died would work for nobody."""
    worker = multiprocessing.parent_process()
    if worker is not None:
        worker.join()
        os._exit(1)


def _find(order: Order) -> tuple[Definition, Desk, Any]:
    """The task behind a function's name, as its module defines it in this process."""
    found: Any = operator.attrgetter(order.function)(importlib.import_module(order.module))
    locate: Callable[[], tuple[Definition, Desk, Any]] | None = getattr(found, "workplace", None)
    if locate is None:
        raise StokerError(f"{order.module}.{order.function} is no task here")
    return locate()
