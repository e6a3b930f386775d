"""One worker: a session, a ferry, crews and chores, from start to a graceful end."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from stoker.desk import Desk
from stoker.desk.throttle import Throttler
from stoker.desk.workers import WorkerInfo
from stoker.errors import BadInput, StokerError
from stoker.kernel.facts import check_name, check_text
from stoker.kernel.glob import glob_matches
from stoker.watch import give_up_turn
from stoker.watch.rounds import Rounds
from stoker.worker.context import StopReason
from stoker.worker.crews import Assignment, Crew, LoopCrew, ThreadCrew
from stoker.worker.doormen import Doorman
from stoker.worker.ferry import Ferry
from stoker.worker.heart import Heart, pause_between_beats
from stoker.worker.introduction import Introduction
from stoker.worker.performing import Middleware, Performer, stopped
from stoker.worker.processes import ProcessCrew
from stoker.worker.tasks import Definition, Place, Tasks

logger = logging.getLogger("stoker.worker")

_CREWS: dict[Place, type[LoopCrew | ThreadCrew]] = {
    Place.LOOP: LoopCrew,
    Place.THREAD: ThreadCrew,
    Place.PROCESS: ProcessCrew,
}

_YEAR = 31_536_000

DEFAULT_TTL = 6_000_000
"""A dead worker's jobs run again within this time and a quarter; ends of processes are seen
sooner by their supervisor."""


class WorkerSettings(msgspec.Struct, frozen=True):
    """How a worker works. Times are in seconds."""

    queues: tuple[str, ...]
    concurrency: int = 10
    ttl: float = DEFAULT_TTL / 1e6
    grace: float = 30.0
    name: str = ""
    chores: bool = True

    def __post_init__(self) -> None:
        if not self.queues:
            raise BadInput("a worker needs at least one queue; name it with --queues")
        check_text("the name of a worker", self.name)
        for queue in self.queues:
            check_name("the name of a queue", queue)
        if not 1 <= self.concurrency <= 1000:
            raise BadInput(f"concurrency must be from 1 to 1000, not {self.concurrency}")
        for name, least in (("ttl", 1), ("grace", 0)):
            if not least <= (seconds := getattr(self, name)) <= _YEAR:
                raise BadInput(f"{name} must be from {least} to {_YEAR:,} seconds, not {seconds:g}")


class Worker:
    """Runs jobs in this process until it is stopped. `app.worker()` makes one.

    >>> from stoker import Stoker
    >>> app = Stoker("memory:")
    >>> job = app.task(lambda: "done").enqueue()
    >>> worker = app.worker(concurrency=2)
    >>> worker.start()
    >>> job.wait(timeout="10s")
    'done'
    >>> worker.stop()
    """

    def __init__(
        self,
        desk: Desk,
        tasks: Tasks,
        settings: WorkerSettings,
        middleware: Sequence[Middleware] = (),
        throttlers: Mapping[str, Throttler] = {},
        on_round: Callable[[], object] = lambda: None,
    ) -> None:
        self.settings = settings
        self._desk = desk
        self._performer = Performer(desk.store.now, middleware)
        self._crews: dict[Place, Crew] = {}
        self._hiring = threading.Lock()
        self._throttlers = {
            queue: throttler
            for queue, throttler in throttlers.items()
            if any(glob_matches(pattern, queue) for pattern in settings.queues)
        }
        self._owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._trouble = threading.Event()
        self._heart = Heart(
            desk,
            round(settings.ttl * 1e6),
            introduction=Introduction(desk, tasks, settings.name or self._owner, self._info()),
            in_hand=lambda: list(self._ferry.in_hand),
            end=self._end,
            on_trouble=self._trouble.set if settings.chores else None,
        )
        self._ferry = Ferry(
            desk,
            tasks,
            settings.queues,
            settings.concurrency,
            crew_for=self._crew_for,
            take_back=self._take_back,
            heart=self._heart,
        )
        self._ferry.lobby.doormen += [
            Doorman(desk, queue, throttler, self._owner)
            for queue, throttler in self._throttlers.items()
        ]
        self._on_round = on_round
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def session(self) -> int:
        """The session under which this worker claims now."""
        return self._heart.session

    @property
    def finished(self) -> int:
        """How many jobs have been carried back."""
        return self._ferry.finished

    def tell_of_beats(self, hear: Callable[[int], None]) -> None:
        """Have somebody told of each heartbeat that gets through, with the session it is for."""
        self._heart.on_beat = hear

    def start(self) -> None:
        """Begin to work, in threads of its own."""
        self._ferry.listen()
        self._start("stoker-heart", self._heart.run)
        self._start("stoker-ferry", self._ferry.run)
        for doorman in self._ferry.lobby.doormen:
            # Not waited for in the end: nobody knows when its throttler comes back.
            run = partial(doorman.run, self._ferry.lobby)
            threading.Thread(target=run, name="stoker-doorman", daemon=True).start()
        if self.settings.chores:
            self._start("stoker-chores", self._do_chores)

    def stop(self, grace: float | None = None) -> None:
        """Take nothing new, let what runs end within the grace period, give the rest back."""
        if self._over.is_set():
            return
        self._ferry.decline()
        self._ferry.give_back()
        self._wait_until_empty(self.settings.grace if grace is None else grace)
        for assignment in list(self._ferry.in_hand):
            self._end(assignment, StopReason.SHUTDOWN)
        self._wait_until_empty(0.5)
        for assignment in list(self._ferry.in_hand):
            # It would not end: give its job back all the same; what it still says counts not.
            self._ferry.done(assignment, stopped(assignment.context.job, StopReason.SHUTDOWN))
        self._close()

    def _wait_until_empty(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._ferry.in_hand and time.monotonic() < deadline:
            time.sleep(0.01)

    def _close(self) -> None:
        for doorman in self._ferry.lobby.doormen:
            doorman.stop()
        self._ferry.stop()
        self._heart.stop()
        self._over.set()
        self._trouble.set()
        for thread in self._threads:
            thread.join(timeout=10)
        for crew in self._crews.values():
            crew.close()
        try:
            self._desk.dispatch.close_session(self._heart.session)
            if self.settings.chores:
                give_up_turn(self._desk.clerk, self._owner)
        except StokerError as error:
            logger.warning("the session could not be closed: %s", error)

    def _start(self, name: str, run: object) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)  # type: ignore[arg-type]
        thread.start()
        self._threads.append(thread)

    def _take_back(self) -> list[Assignment]:
        return [each for crew in self._crews.values() for each in crew.take_back()]

    def _crew_for(self, task: Definition) -> Crew:
        crew = self._crews.get(task.place)
        return self._hired(task.place) if crew is None else crew

    def _hired(self, place: Place) -> Crew:
        with self._hiring:
            if place not in self._crews:
                kind = _CREWS[place]
                self._crews[place] = kind(
                    self._performer, self.settings.concurrency, self._ferry.done
                )
            return self._crews[place]

    def _end(self, assignment: Assignment, reason: StopReason) -> None:
        """Make a handler end, by force where that is possible."""
        if assignment.context.stop_reason is not None:
            return
        assignment.context.stop(reason)
        forced = self._crew_for(assignment.task).interrupt(assignment)
        if not forced and reason is StopReason.TIMEOUT:
            # Nothing stops a thread: report for it, and let its own word come too late.
            self._ferry.done(assignment, stopped(assignment.context.job, reason))

    def _info(self) -> WorkerInfo:
        return WorkerInfo(
            socket.gethostname(),
            os.getpid(),
            self.settings.queues,
            self.settings.concurrency,
            tuple(sorted(self._throttlers)),
        )

    def _do_chores(self) -> None:
        every = pause_between_beats(self.settings.ttl)
        rounds = Rounds(self._desk.clerk, self._owner, every=round(every * 1e6))
        while (troubled := self._hear_of_trouble(every)) is not None:
            try:
                rounds.make(troubled=troubled)
                self._on_round()
            except Exception as error:  # noqa: BLE001 - there will be others to do
                logger.warning("the chores did not get done: %s", error)

    def _hear_of_trouble(self, seconds: float) -> bool | None:
        """Has a beat told of trouble, until now or within this time? None: we are to end."""
        troubled = self._trouble.wait(seconds)
        self._trouble.clear()
        return None if self._over.is_set() else troubled
