"""The ferry: carries outcomes to the desk and brings the next jobs back, both in one trip.

It is the worker's only way to the store. While a trip is on its way to the disk outcomes gather,
so batches grow with the load by themselves. How many jobs are fetched ahead follows the rate at
which they are done: enough to keep the crews busy during a trip, never more than a moment's work,
so that no job waits here while another worker is idle.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from stoker.desk import Desk
from stoker.errors import BadInput, LeaseLost, SessionLost, StokerError, StoreError
from stoker.kernel.job import Job
from stoker.kernel.outcome import Outcome, Released
from stoker.worker.context import Context
from stoker.worker.crews import Assignment, Crew
from stoker.worker.tasks import Definition, Tasks

logger = logging.getLogger("stoker.worker")

_AHEAD_SECONDS = 0.03
_MOST_AHEAD = 500
_LONGEST_SLEEP = 5.0
_UNKNOWN_AGAIN = 60 * 1_000_000
_TROUBLE_PAUSES = (0.05, 0.2, 1.0, 2.0, 5.0)


class Ferry:
    """Claims, hands out, collects and reports, until it is told to stop."""

    def __init__(
        self,
        desk: Desk,
        tasks: Tasks,
        queues: Sequence[str],
        concurrency: int,
        crew_for: Callable[[Definition], Crew],
        session: Callable[[], int],
        session_lost: Callable[[], None],
    ) -> None:
        self._desk = desk
        self._tasks = tasks
        self._queues = list(queues)
        self._concurrency = concurrency
        self._crew_for = crew_for
        self._session = session
        self._session_lost = session_lost
        self.in_hand: dict[int, Assignment] = {}
        self.accepting = True
        self.finished = 0
        self._outbox: deque[tuple[Assignment, Outcome | None]] = deque()
        self._bell = threading.Event()
        self._asleep = False
        self._stopping = False
        self._pace = _Pace()

    # -- called from elsewhere -------------------------------------------------------------

    def done(self, assignment: Assignment, outcome: Outcome | None) -> None:
        """A crew is done with a job; None: there is nobody to report to any more."""
        self._outbox.append((assignment, outcome))
        if self._asleep:
            self._bell.set()

    def wake(self) -> None:
        """There may be something to fetch."""
        self._bell.set()

    def stop(self) -> None:
        """End after the next trip; whatever has an outcome by then is reported."""
        self._stopping = True
        self._bell.set()

    # -- the trips -------------------------------------------------------------------------

    def run(self) -> None:
        """Go back and forth until stopped."""
        troubles = 0
        while not self._stopping or self._outbox:
            try:
                busy = self._trip()
                troubles = 0
            except StoreError as error:
                pause = _TROUBLE_PAUSES[min(troubles, len(_TROUBLE_PAUSES) - 1)]
                logger.warning("the store is in trouble, trying again in %g s: %s", pause, error)
                troubles += 1
                if self._stopping and troubles > len(_TROUBLE_PAUSES):
                    return
                time.sleep(pause)
                continue
            if not busy and not self._stopping:
                self._sleep()

    def _trip(self) -> bool:
        """One trip; was there anything to carry?"""
        cargo = [self._outbox.popleft() for _ in range(len(self._outbox))]
        told = [(a, outcome) for a, outcome in cargo if outcome is not None]
        room = self._room(len(cargo))
        try:
            granted = self._exchange(told, room)
        except StoreError:
            self._outbox.extendleft(reversed(cargo))
            raise
        for assignment, _ in cargo:
            self.in_hand.pop(assignment.context.job.id, None)
        self.finished += len(cargo)
        self._pace.count(len(cargo))
        self._hand_out(granted)
        return bool(cargo or granted)

    def _room(self, leaving: int) -> int:
        if not self.accepting or self._stopping:
            return 0
        wanted = self._concurrency + self._pace.ahead()
        return max(0, min(wanted - len(self.in_hand) + leaving, 1000))

    def _exchange(self, told: list[tuple[Assignment, Outcome]], room: int) -> list[Job]:
        outcomes = [(assignment.context.job, outcome) for assignment, outcome in told]
        if not room:
            results, grants = self._desk.report.many(outcomes) if outcomes else ([], ())
        else:
            request = self._desk.dispatch.request(self._queues, room, session=self._session())
            results, grants = self._desk.report.many(outcomes, [request])
        for (job, _), result in zip(outcomes, results, strict=True):
            if isinstance(result, StokerError):
                self._refused(job, result)
        if not grants:
            return []
        try:
            return self._desk.dispatch.granted(grants[0])
        except SessionLost:
            self._session_lost()
            return []

    @staticmethod
    def _refused(job: Job, error: StokerError) -> None:
        if isinstance(error, LeaseLost):
            logger.warning(
                "job %d was taken over while it ran here; its outcome counts not", job.id
            )
        elif isinstance(error, BadInput):
            logger.error("the outcome of job %d cannot be stored: %s", job.id, error)
        else:
            logger.error("the outcome of job %d was refused: %s", job.id, error)

    def _hand_out(self, jobs: list[Job]) -> None:
        by_crew: dict[int, tuple[Crew, list[Assignment]]] = {}
        for job in jobs:
            task = self._tasks.get(job.name)
            if task is None:
                self._park(job)
                continue
            assignment = Assignment(task, Context(job, self._desk))
            self.in_hand[job.id] = assignment
            crew = self._crew_for(task)
            by_crew.setdefault(id(crew), (crew, []))[1].append(assignment)
        for crew, assignments in by_crew.values():
            crew.submit(assignments)

    def _park(self, job: Job) -> None:
        """A task nobody here knows may be known elsewhere, or after the next deployment."""
        error = f"no task called {job.name!r} is known to the worker that took it"
        logger.warning("job %d is put off for a minute: %s", job.id, error)
        later = self._desk.store.now() + _UNKNOWN_AGAIN
        self._desk.report.many([(job, Released(later, error=error))])

    def _sleep(self) -> None:
        """Until a ring, an outcome, the next due job or the next look."""
        self._asleep = True
        try:
            if not self._outbox:
                self._bell.wait(self._sleep_seconds())
            self._bell.clear()
        finally:
            self._asleep = False

    def _sleep_seconds(self) -> float:
        if not self._room(0):
            return _LONGEST_SLEEP
        names = self._desk.dispatch.named(self._queues)
        due_at = self._desk.store.next_due(names)
        if due_at is None:
            return _LONGEST_SLEEP
        return min(_LONGEST_SLEEP, max(0.0, (due_at - self._desk.store.now()) / 1e6))


class _Pace:
    """How fast jobs are done here, and hence how many to have at hand."""

    def __init__(self) -> None:
        self._rate = 0.0
        self._since = time.monotonic()
        self._counted = 0

    def count(self, done: int) -> None:
        self._counted += done
        now = time.monotonic()
        passed = now - self._since
        if passed > _AHEAD_SECONDS:
            self._rate += (self._counted / passed - self._rate) * 0.5
            self._since, self._counted = now, 0

    def ahead(self) -> int:
        return min(_MOST_AHEAD, int(self._rate * _AHEAD_SECONDS))
