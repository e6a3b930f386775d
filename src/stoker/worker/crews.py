"""Where handlers run: crews that take jobs in and hand outcomes back.

A crew is fed by the ferry and never touches the store. Runners live long and take one job after
the other: a task or thread of its own for every job would cost more than many a handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from stoker.kernel.outcome import Outcome
from stoker.worker.context import Context, StopReason
from stoker.worker.loops import loop_factory
from stoker.worker.performing import Performer
from stoker.worker.tasks import Definition


class Assignment(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A job in hand: what is to be run, and how to reach it while it runs."""

    task: Definition
    context: Context


T = TypeVar("T")
Done = Callable[[Assignment, Outcome | None], None]


class Crew(Protocol):
    """Runs assignments, as many at a time as it has runners."""

    def submit(self, assignments: Sequence[Assignment]) -> None:
        """Take jobs in; each is handed to `done` in the end, unless it is taken back."""

    def take_back(self) -> list[Assignment]:
        """Those that have not begun."""

    def interrupt(self, assignment: Assignment) -> bool:
        """Make a running handler end; False if it can only be asked."""

    def close(self) -> None:
        """Send the runners home."""


class Runs(Protocol):
    """What a runner thread asks to run a handler."""

    def run(self, task: Definition, context: Context) -> Outcome | None:
        """Run it, here or elsewhere, to its end."""


class ThreadCrew:
    """Sync handlers, each runner a thread.

    A runner that finds more to do than it has taken wakes one other, unless one is on its way:
    handlers that are over in no time are run by a few threads, without switching between many.
    """

    def __init__(self, performer: Runs, runners: int, done: Done) -> None:
        self._performer = performer
        self._done = done
        self._inbox: deque[Assignment] = deque()
        self._asleep: deque[threading.Lock] = deque()
        self._on_its_way = False
        self._hired = itertools.count(1)
        self._entrusted: set[Assignment] = set()
        self._closed = threading.Event()
        for _ in range(runners):
            self._hire()

    def _hire(self) -> None:
        name = f"stoker-runner-{next(self._hired)}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, assignments: Sequence[Assignment]) -> None:
        self._entrusted.update(assignments)
        self._inbox.extend(assignments)
        self._wake_one()

    def _run(self) -> None:
        bell = threading.Lock()
        bell.acquire()
        while (assignment := self._next(bell)) is not None:
            outcome = self._performer.run(assignment.task, assignment.context)
            if not self._discharged(assignment):
                return  # somebody else was hired in this runner's place
            self._done(assignment, outcome)

    def _next(self, bell: threading.Lock) -> Assignment | None:
        """What to do next, however long it takes to come; None: go home."""
        while not self._closed.is_set():
            assignment = _taken(self._inbox)
            if self._inbox:
                self._wake_one()
            if assignment is not None:
                return assignment
            self._asleep.append(bell)
            if self._closed.is_set():
                break
            if self._inbox:
                self._wake_one()  # it came while we went to sleep; whoever wakes will see to it
            bell.acquire()
            self._on_its_way = False
        return None

    def _wake_one(self) -> None:
        """Whoever is on its way will wake the next one, if there is more to do than one can."""
        if self._on_its_way:
            return
        with contextlib.suppress(IndexError):
            bell = self._asleep.pop()
            self._on_its_way = True
            bell.release()

    def _discharged(self, assignment: Assignment) -> bool:
        try:
            self._entrusted.remove(assignment)
        except KeyError:
            return False
        return True

    def take_back(self) -> list[Assignment]:
        return [each for each in all_taken(self._inbox) if self._discharged(each)]

    def interrupt(self, assignment: Assignment) -> bool:
        # Nothing stops a thread but itself. One that runs on after its time must not keep the
        # jobs behind it waiting.
        late = assignment.context.stop_reason is StopReason.TIMEOUT
        if late and self._discharged(assignment):
            self._hire()
        return False

    def close(self) -> None:
        self._closed.set()
        with contextlib.suppress(IndexError):
            while True:
                self._asleep.pop().release()


def _taken(inbox: deque[T]) -> T | None:
    """The foremost of an inbox that others take from too."""
    try:
        return inbox.popleft()
    except IndexError:
        return None


def all_taken(inbox: deque[T]) -> list[T]:
    """All of an inbox that others take from too."""
    taken: list[T] = []
    with contextlib.suppress(IndexError):
        while True:
            taken.append(inbox.popleft())
    return taken


class LoopCrew:
    """Async handlers, each runner a coroutine on one event loop in a thread of its own."""

    def __init__(self, performer: Performer, runners: int, done: Done) -> None:
        self._performer = performer
        self._done = done
        self._runners = runners
        self._inbox: deque[Assignment] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._running: dict[Assignment, asyncio.Task[None]] = {}
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name="stoker-loop", daemon=True)
        self._thread.start()
        self._ready.wait()

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        runners = [self._loop.create_task(self._run()) for _ in range(self._runners)]
        self._ready.set()
        await self._closing.wait()
        for runner in runners:
            runner.cancel()
        await asyncio.gather(*runners, return_exceptions=True)

    def submit(self, assignments: Sequence[Assignment]) -> None:
        self._inbox.extend(assignments)
        self._loop.call_soon_threadsafe(self._wake, len(assignments))

    def _wake(self, count: int) -> None:
        while count and self._idle:
            waiting = self._idle.popleft()
            if not waiting.done():
                waiting.set_result(None)
                count -= 1

    async def _run(self) -> None:
        me = asyncio.current_task()
        assert me is not None
        turns = 0
        while not self._closing.is_set():
            assignment = _taken(self._inbox)
            if assignment is None:
                waiting = self._loop.create_future()
                self._idle.append(waiting)
                await waiting
                continue
            self._running[assignment] = me
            outcome = await self._performer.run_async(assignment.task, assignment.context)
            del self._running[assignment]
            if assignment.context.stop_reason is not None:
                me.uncancel()
            self._done(assignment, outcome)
            turns += 1
            if turns % 32 == 0:
                await asyncio.sleep(0)  # handlers that never wait must not starve those that do

    def take_back(self) -> list[Assignment]:
        return all_taken(self._inbox)

    def interrupt(self, assignment: Assignment) -> bool:
        self._loop.call_soon_threadsafe(self._cancel, assignment)
        return True

    def _cancel(self, assignment: Assignment) -> None:
        runner = self._running.get(assignment)
        if runner is not None:
            runner.cancel()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(timeout=5)
