"""The ferry: carries outcomes to the desk and brings the next jobs back, both in one trip.

It is the worker's only way to the store. While a trip is on its way to the disk outcomes gather,
so batches grow with the load by themselves. Where a server does the work a tender goes along, so
that neither waits for the other. How many jobs are fetched ahead follows the rate at
which they are done: enough to keep the crews busy during a trip, never more than a moment's work,
so that no job waits here while another worker is idle.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple

import msgspec

from stoker.desk import Desk
from stoker.desk.known_tasks import unknown_here
from stoker.errors import BadInput, Contended, LeaseLost, SessionLost, StokerError
from stoker.kernel.glob import glob_matches
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Failed, Outcome, Released
from stoker.kernel.retry import GiveUp, failure_of
from stoker.store import Claim, Filter
from stoker.store.bell import Listener
from stoker.store.rings import errand_ring, session_ring
from stoker.worker.context import Context
from stoker.worker.crews import Assignment, Crew, all_taken
from stoker.worker.doormen import KEPT_FOR, Lobby
from stoker.worker.heart import Heart
from stoker.worker.hold import Hold, lease_of
from stoker.worker.pace import AHEAD_SECONDS, Pace
from stoker.worker.performing import PUT_OFF
from stoker.worker.tasks import Definition, Tasks
from stoker.worker.tender import Tender

logger = logging.getLogger("stoker.worker")

_REPLACE = msgspec.structs.replace

_MOST_IN_HAND = 2000
_LONGEST_SLEEP = 5.0
_STRAYS_SECONDS = 30.0
"""So long a job waits that was started for us, if the ring was lost."""
_BREATH_SECONDS = 0.001
"""After a trip that brought less than there was room for: the handlers it was for begin the sooner,
and whatever they are done with until then goes along with the next one."""
_MOST_BREATHS = 10
"""So long they wait for something to carry."""
_PLENTY = 2
"""Jobs in hand for each that may run: when half of all is done there are still more than that."""
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
        take_back: Callable[[], list[Assignment]],
        heart: Heart,
    ) -> None:
        self._desk = desk
        self._tasks = tasks
        self._queues = list(queues)
        self._concurrency = concurrency
        self._crew_for = crew_for
        self._take_back = take_back
        self._heart = heart
        self.lobby = Lobby(desk, free=self._free, wake_ferry=self.wake)
        self._hold = Hold()
        self.in_hand = self._hold.in_hand
        self._outbox = self._hold.outbox
        self.accepting = True
        self.finished = 0
        self._lock = threading.Lock()
        self._ear: Listener | None = None
        self._woken = False
        self._asleep = False
        self._asked_at = 0
        self._awaited = 0
        """Jobs that trips under way have asked for."""
        self._missed = False
        """Has a trip of the tender's not come back?"""
        self._tender = Tender(self._second_trip) if desk.store.abreast > 1 else None
        self._standing: int | None = None
        """The token of a claim that was left standing, until something has come of it."""
        self._stood_at: str | None = None
        self._strays_by = math.inf
        """When to look what has become of claims that stand no more, by the monotonic clock."""
        self._due_at: int | None = 0
        """When the next job falls due, as far as was heard. A moment that is past says nothing."""
        self._stopping = False
        self._pace = Pace()

    # -- called from elsewhere -------------------------------------------------------------

    def done(self, assignment: Assignment, outcome: Outcome | None) -> None:
        """It is known what came of a job; None: there is nobody to report to any more.

        A handler that was reported for may say what it likes.
        """
        if self._hold.settle(assignment, outcome):
            self.lobby.place_free()
            self._rouse()

    def decline(self) -> None:
        """Take nothing new from now on; what a trip still brings goes back at once."""
        with self._lock:
            self.accepting = False
        self.wake()  # nobody shall start anything for us from now on

    def give_back(self) -> None:
        """Whatever has not begun goes back to its queue."""
        self._pace = Pace()
        for assignment in self._take_back():
            self.done(assignment, Released())

    def wake(self) -> None:
        """There may be something to fetch."""
        self._woken = True
        self._rouse()

    def _rouse(self) -> None:
        if self._asleep and self._ear is not None:
            self._ear.interrupt()

    def stop(self) -> None:
        """End after the next trip; whatever has an outcome by then is reported."""
        self._stopping = True
        self.wake()

    def listen(self) -> None:
        """Begin to hear of work; no ring is missed from here on."""
        self._ear = self._desk.store.bell.listen()

    # -- the trips -------------------------------------------------------------------------

    def run(self) -> None:
        """Go back and forth until stopped."""
        if self._ear is None:
            self.listen()
        assert self._ear is not None
        with closing(self._ear) as ear:
            self._go_back_and_forth(ear)
        if self._tender is not None:
            self._tender.close()

    def _go_back_and_forth(self, ear: Listener) -> None:
        troubles = 0
        while not self._stopping or self._outbox or self.lobby.pending or self._missed:
            try:
                if troubles or self._may_have_strays():
                    self._look_for_strays()
                self._hear(ear, ear.wait(0))
                self._woken = False  # whatever was rung for until now, this trip will find
                brought = self._trip()
                troubles = 0
                if self._stopping:
                    self._go_alone()  # what the tender brings now goes back with the next trip
                elif not brought.any:
                    self._sleep(ear)
                elif not brought.full:
                    self._rest(ear, _BREATH_SECONDS)
                else:
                    self._go_on()
            except Exception as error:  # noqa: BLE001 - whatever it is, the worker goes on
                pause = _TROUBLE_PAUSES[min(troubles, len(_TROUBLE_PAUSES) - 1)]
                logger.warning("the store is in trouble, trying again in %g s: %s", pause, error)
                troubles += 1
                if self._stopping and troubles > len(_TROUBLE_PAUSES):
                    return
                time.sleep(pause)

    def _hear(self, ear: Listener, rung: set[str]) -> None:
        """Somebody rang: for a queue of ours, with a job for us, or for those to be cancelled."""
        if not rung:
            return
        if errand_ring(self._heart.session) in rung:
            self._take_errand(ear.brought())
            if len(rung) == 1:
                return  # whoever runs it waits for the interpreter, which is ours until we rest
        self.lobby.wake(rung)
        if session_ring(self._heart.session) in rung:
            self._heart.look()
        if any(glob_matches(queue, name) for name in rung for queue in self._queues):
            self._woken = True
            self._due_at = 0

    def _take_errand(self, brought: list[Job]) -> None:
        """A job was started for us. It is taken as it came unless the claim that it was started for
        stands no more: then it may have been found already."""
        jobs = [job for job in brought if job.token == self._standing]
        if jobs:
            self._standing = None
            self._hand_out(self._desk.dispatch.granted(jobs))
        others = [job for job in brought if job not in jobs and job.session == self._heart.session]
        if others or not jobs:
            self._look_for_strays()

    def _look_for_strays(self) -> None:
        """What is ours by the books and not in our hands: the answer to a claim was lost, or the
        ring for what was started for us."""
        self._go_alone()
        self._missed = False
        # The server may notice later than we that nobody listens there.
        late = time.monotonic() + _STRAYS_SECONDS if self._is_cut_off() else math.inf
        self._standing, self._strays_by = None, late
        ours = Filter(states=(State.RUNNING,), session=self._heart.session, limit=_MOST_IN_HAND)
        held = self._desk.store.find(ours)
        known = self._hold.leases()
        strays = [job for job in held if lease_of(job) not in known]
        self._hand_out(self._desk.dispatch.granted(strays))

    def _may_have_strays(self) -> bool:
        return self._missed or self._is_cut_off() or time.monotonic() >= self._strays_by

    def _go_alone(self) -> None:
        if self._tender is not None:
            self._tender.recall()

    def _trip(self) -> _Brought:
        """There and back, and what was ruled in the lobby is done."""
        self._asked_at = self._desk.store.now()
        brought = self._carry()
        if brought.any:
            self._due_at = 0  # a rate may have been used up
        admitted = self.lobby.carry_out(self._heart.session, accepting=self.accepting)
        self._hand_out(admitted)
        return _Brought(brought.any or bool(admitted), brought.full)

    def _go_on(self) -> None:
        """There may be more where that came from. As long as there is plenty for the crews to do it
        can wait until a trip is worth it."""
        if self._tender is not None:
            self._tender.call()
        if len(self.in_hand) > _PLENTY * self._concurrency:
            self._gather()

    def _second_trip(self) -> bool:
        try:
            return self._gather() and self._carry().full
        except Exception:  # noqa: BLE001 - the ferry meets with the same trouble, and tells of it
            self._missed = True
            self.wake()
            return False

    def _gather(self) -> bool:
        """Wait a little until half of what is in hand is done; False if it is not. Who went before
        would bring next to nothing, and a tender at home would leave the ferry to do it all."""
        for _ in range(_MOST_BREATHS):
            if self._stopping or 2 * len(self._outbox) >= len(self.in_hand):
                return True
            time.sleep(_BREATH_SECONDS)
        return False

    def _carry(self) -> _Brought:
        """Take all outcomes there, and hand out what comes back."""
        cargo = all_taken(self._outbox)
        told = [(job, outcome) for job, outcome in cargo if outcome is not None]
        with self._asking() as room:
            try:
                granted = self._exchange(told, room)
            except Exception:
                self._outbox.extendleft(reversed(cargo))
                raise
            self._hand_out(granted)
        with self._lock:
            self.finished += len(cargo)
            done = len(cargo) - sum([type(word[1]) is Released for word in cargo])
            self._pace.count(done, self._hold.idled())
        self.lobby.wake({job.queue for job, _ in cargo})
        return _Brought(bool(granted), full=bool(room) and len(granted) == room)

    @contextmanager
    def _asking(self) -> Iterator[int]:
        """Ask for as many jobs as there is room for; nobody else may until they are here."""
        kept = self.lobby.kept
        with self._lock:
            room = self._room(kept)
            self._awaited += room
        try:
            yield room
        finally:
            with self._lock:
                self._awaited -= room

    def _room(self, kept: int) -> int:
        if not self.accepting or self._stopping:
            return 0
        wanted = self._concurrency + self._pace.ahead(self._hold.idled())
        # Where two go each may ask for half, lest there is nothing left for the other.
        share = wanted if self._tender is None else max(self._concurrency, wanted // 2)
        left = wanted - len(self.in_hand) - self._awaited - kept
        return max(0, min(left, share, self._desk.store.portion))

    def _free(self) -> int:
        """How many jobs more could run at once."""
        return self._concurrency - len(self.in_hand) if self.accepting else 0

    def _exchange(self, told: list[tuple[Job, Outcome]], room: int) -> list[Job]:
        desk, session = self._desk, self._heart.living_session()
        claims = [claim for claim in self._claims(room, session) if claim.queues]
        if not claims and not told:
            return []
        results, grants = desk.report.many(told, claims)
        if claims:
            self._note_standing(claims[0], grants[0])
        for (job, outcome), result in zip(told, results, strict=True):
            if isinstance(result, StokerError):
                self._refused(job, outcome, result)
        if not grants:
            return []
        try:
            return desk.dispatch.granted(grants[0])
        except SessionLost:
            self._heart.lose(session)
            if self._heart.session != session:
                self._woken = True  # and at once again, as somebody new
            return []

    def _claims(self, room: int, session: int) -> list[Claim]:
        """What to ask for. It is left standing by a worker that has nothing else to do: no job
        shall wait for one that its handlers keep busy."""
        if not room and self._standing is None:
            return []
        claim = self._desk.dispatch.request(self._queues, max(room, 1), session=session)
        stands = self._ear.address if self._ear and room and not self.in_hand else None
        if stands is not None and self._standing is not None and stands == self._stood_at:
            # The same again: it stands as it stood, and nothing has to be written.
            claim = _REPLACE(claim, token=self._standing)
        return [_REPLACE(claim, limit=room, stands=stands)]

    def _note_standing(self, claim: Claim, grant: Sequence[Job] | None) -> None:
        if self._standing is not None:
            # It may have been served before, and the ring be on its way, or lost.
            self._strays_by = min(self._strays_by, time.monotonic() + _STRAYS_SECONDS)
            self._missed |= not self.accepting or self._is_cut_off()
        self._standing = claim.token if claim.stands is not None and grant == [] else None
        self._stood_at = claim.stands

    def _is_cut_off(self) -> bool:
        """Does a claim of ours stand, and the connection on which we would have heard is lost?"""
        address = None if self._ear is None else self._ear.address
        return self._standing is not None and address != self._stood_at

    def _refused(self, job: Job, outcome: Outcome, error: StokerError) -> None:
        given_up = isinstance(outcome, Failed) and isinstance(outcome.verdict, GiveUp)
        if isinstance(error, LeaseLost):
            logger.warning(
                "job %d was taken over while it ran here; its outcome counts not", job.id
            )
        elif isinstance(error, Contended):
            self._outbox.append((job, outcome))
        elif isinstance(error, BadInput) and not given_up:
            said = GiveUp(f"its outcome cannot be stored: {error}")
            self._outbox.append((job, Failed(failure_of(error), said)))
        else:
            logger.error("the outcome of job %d was refused: %s", job.id, error)

    def _hand_out(self, jobs: list[Job]) -> None:
        desk = self._desk
        by_crew: dict[Crew, list[Assignment]] = {}
        spots: dict[str, tuple[Definition, list[Assignment]]] = {}
        for job in jobs:
            spot = spots.get(job.name)
            if spot is None:
                task = self._tasks.get(job.name)
                if task is None:
                    self._put_off(job)
                    continue
                spot = spots[job.name] = (task, by_crew.setdefault(self._crew_for(task), []))
            task, assignments = spot
            assignments.append(Assignment(task, Context(job, desk)))
        for crew, assignments in by_crew.items():
            if self._take_in(assignments):
                crew.submit(assignments)

    def _take_in(self, assignments: list[Assignment]) -> bool:
        with self._lock:
            if self.accepting:
                self._hold.load(assignments)
            else:
                self._outbox.extend((each.context.job, Released()) for each in assignments)
            return self.accepting

    def _put_off(self, job: Job) -> None:
        error = unknown_here(job.name)
        logger.warning("job %d is put off for a minute: %s", job.id, error)
        self._outbox.append((job, Released(self._desk.store.now() + PUT_OFF, error=error)))

    def _sleep(self, ear: Listener) -> None:
        """Until a ring, an outcome, the next due job or the next look."""
        if self._may_sleep() and self._rest(ear, self._sleep_seconds()) and self._is_crowded():
            self.give_back()  # others may have nothing to do

    def _rest(self, ear: Listener, seconds: float) -> bool:
        """Until a ring or an outcome; was there none in the whole time?"""
        deadline = time.monotonic() + seconds
        self._asleep = True
        try:
            while self._may_sleep():
                left = deadline - time.monotonic()
                if left <= 0:
                    return True
                self._hear(ear, ear.wait(left))
        finally:
            self._asleep = False
        return False

    def _may_sleep(self) -> bool:
        return not (self._woken or self._outbox or self._missed or self._is_cut_off())

    def _is_crowded(self) -> bool:
        return len(self.in_hand) > self._concurrency

    def _sleep_seconds(self) -> float:
        if self._is_crowded():
            return 2 * AHEAD_SECONDS
        kept = self.lobby.kept
        if not self._room(kept):
            return KEPT_FOR if kept else _LONGEST_SLEEP
        due_at, now = self._next_due(), self._desk.store.now()
        if due_at is None:
            return _LONGEST_SLEEP
        return min(_LONGEST_SLEEP, max(0.0, (due_at - now) / 1e6))

    def _next_due(self) -> int | None:
        """Asked for again when a ring said that it has changed, or it has come. If a ring was lost
        the job is found with the next look, a little late."""
        if self._due_at is not None and self._due_at <= self._desk.store.now():
            self._due_at = self._desk.dispatch.next_due(self._queues, after=self._asked_at)
        return self._due_at


class _Brought(NamedTuple):
    """What a trip brought: anything at all? And all that was asked for? Then there may be more."""

    any: bool
    full: bool
