"""A worker as the kill test needs it: it notes what it is about to do, and never minds the time.

An honest worker stops when it has been asleep for longer than its session lives. This one reports
all the same, since the store has to refuse it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from stoker.desk import Desk
from stoker.errors import Refused, StokerError, StoreError
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Failed, Finished, Released
from stoker.kernel.retry import Failure
from stoker.store import Claim
from stoker.store.clock import wall_clock
from tests.faults.cargo import QUEUES, cargo_of, draft
from tests.faults.journal import (
    Ask,
    Declined,
    Farewell,
    Granted,
    Journal,
    Offer,
    Placed,
    Pulse,
    Ruled,
    Try,
    lease_of,
)

Outcome = Finished | Failed | Released

TTL = 2_000_000
_BEAT_EVERY = 400_000


class Worker:
    """Holds what it has claimed and, a step later, reports about it."""

    def __init__(self, desk: Desk, journal: Journal, dice: random.Random, name: str) -> None:
        self._desk = desk
        self._journal = journal
        self._dice = dice
        self._name = name
        self._families = 0
        self._held: list[Job] = []
        self._session: int | None = None
        self._beaten_at = 0
        self._listener = desk.store.bell.listen()

    def step(self) -> None:
        """Report what is held, claim more, and work on it for a moment."""
        try:
            session = self._living_session()
            self._found_families()
            if self._dice.random() < 0.5:
                self._exchange(session, self._held, claim=True)
            else:
                self._report_one_by_one()
                self._exchange(session, [], claim=True)
        except StoreError:
            self._leave_session()
            raise
        if self._held:
            time.sleep(self._dice.uniform(0, 0.03))
        else:
            self._listener.wait(0.1)

    def end(self) -> None:
        """Report the last jobs and go."""
        self._exchange(self._living_session(), self._held, claim=False)
        self._leave_session()
        self._listener.close()

    # -- session ---------------------------------------------------------------------------

    def _living_session(self) -> int:
        now = wall_clock()
        if self._session is not None and now >= self._beaten_at + _BEAT_EVERY:
            alive = self._desk.dispatch.beat(self._session, ttl=TTL).alive
            self._journal.write(Pulse(at=now, session=self._session, ttl=TTL, alive=alive))
            self._session = self._session if alive else None
            self._beaten_at = now
        if self._session is None:
            now = wall_clock()
            self._session = self._desk.dispatch.open_session(self._name, ttl=TTL)
            self._journal.write(Pulse(at=now, session=self._session, ttl=TTL))
            self._beaten_at = now
        return self._session

    def _leave_session(self) -> None:
        """After an answer that never came the session may hold jobs nobody knows of."""
        if self._session is not None:
            session, self._session = self._session, None
            self._journal.write(Farewell(at=wall_clock(), session=session))
            self._desk.dispatch.close_session(session)

    # -- reports and claims ----------------------------------------------------------------

    def _exchange(self, session: int, report_on: list[Job], *, claim: bool) -> None:
        """Reports and the next claim in one durable step."""
        limit = self._dice.randint(1, 16)
        request = self._desk.dispatch.request(list(QUEUES), limit, session=session)
        claims = [request] if claim else []
        if claim:
            self._journal.write(Ask(at=wall_clock(), token=request.token))
        outcomes = [self._intended(job) for job in report_on]
        results, grants = self._desk.report.many(outcomes, claims)
        for (job, _), result in zip(outcomes, results, strict=True):
            self._note_ruling(job, result)
        self._held = []
        for grant in grants:
            self._take(request, session, grant)

    def _report_one_by_one(self) -> None:
        report = self._desk.report
        for job, outcome in [self._intended(job) for job in self._held]:
            result: Job | StokerError
            try:
                if isinstance(outcome, Finished):
                    result = report.finish(job, outcome.result)
                elif isinstance(outcome, Failed):
                    result = report.fail(job, outcome.failure)
                else:
                    result = report.release(job, due_at=outcome.due_at)
            except Refused as error:
                result = error
            self._note_ruling(job, result)
        self._held = []

    def _intended(self, job: Job) -> tuple[Job, Outcome]:
        """How the work on a job ends. Its token becomes its result, to tell who wrote it."""
        now, throw, token = wall_clock(), self._dice.random(), job.token
        assert token is not None
        outcome: Outcome
        if throw < 0.06:
            later = now + self._dice.randint(0, 300_000)
            what, outcome = "release", Released(later if throw < 0.03 else None)
        elif throw < 0.14:
            what, outcome = "fail", Failed(Failure(("tests.Failure",), str(token)))
        else:
            what, outcome = "finish", Finished(str(token).encode())
        self._journal.write(Try(at=now, job=job.id, token=token, what=what))
        return job, outcome

    def _note_ruling(self, job: Job, result: Job | StokerError | None) -> None:
        now, token = wall_clock(), job.token
        assert token is not None
        if isinstance(result, StokerError):
            ruling = Ruled(at=now, job=job.id, token=token, refused=result.code)
        else:
            state = State.FINISHED if result is None else result.state
            due_at = (result or job).due_at
            ruling = Ruled(at=now, job=job.id, token=token, state=state, due_at=due_at)
        self._journal.write(ruling)

    def _take(self, request: Claim, session: int, grant: Sequence[Job] | None) -> None:
        if grant is None:
            self._session = None
            return
        self._held = self._desk.dispatch.granted(grant)
        leases = [lease_of(job) for job in self._held]
        now = wall_clock()
        self._journal.write(Granted(at=now, token=request.token, session=session, leases=leases))

    # -- families --------------------------------------------------------------------------

    def _found_families(self) -> None:
        for job in self._held:
            cargo = cargo_of(job)
            childless = not (job.open_children or job.finished_children or job.failed_children)
            if cargo.children and childless and not job.cancelled_children:
                self._spawn(job, cargo.children)

    def _spawn(self, parent: Job, count: int) -> None:
        self._families += 1
        batch = f"{self._name}/{self._families}"
        tags = [f"{batch}.{i}" for i in range(count)]
        now = wall_clock()
        self._journal.write(Offer(at=now, batch=batch, tags=tags, dues=[0] * count))
        try:
            ids = self._desk.intake.spawn(parent, [draft(tag, child=True) for tag in tags])
        except Refused:
            self._journal.write(Declined(at=wall_clock(), batch=batch))
        else:
            self._journal.write(Placed(at=wall_clock(), batch=batch, ids=ids))
