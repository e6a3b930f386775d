"""Committing a batch: as much of it as possible the short way, the rest the long way.

If all goes the short way, and the claim is for queues without limits, the whole call is one round
trip and one transaction, which the server sees to by itself.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

from stoker.kernel.change import Change
from stoker.kernel.job import QUEUED, Job
from stoker.store import OK, Claim, Receipt
from stoker.store.postgres.claim import Asking, Verdict
from stoker.store.postgres.clock import Timepiece
from stoker.store.postgres.driver import (
    RETRIED,
    Connection,
    NotThisWay,
    short_way,
    together,
    transaction,
)
from stoker.store.postgres.lean import placed, settling
from stoker.store.postgres.marks import Marks
from stoker.store.postgres.plan import Plan
from stoker.store.postgres.rows import Row
from stoker.store.postgres.save import load_stage, numbered, read_seal_note, save_stage
from stoker.store.postgres.schema import named
from stoker.store.postgres.stage import Stage
from stoker.store.postgres.texts import read
from stoker.store.postgres.walk import Walker
from stoker.store.seal import check_seal

T = TypeVar("T")

_TRIES = 20
_PAUSE = 0.02


class Outcome:
    """What has come of a batch so far."""

    def __init__(self, changes: int) -> None:
        self.receipts: list[Receipt] = [OK] * changes
        self.grants: list[list[Job] | None] = []
        self.eased: set[str] = set()
        """Limited queues in which room was made."""


class Committer:
    """Carries batches to the server, over whatever connection it is given."""

    def __init__(self, schema: str, marks: Marks, clock: Timepiece) -> None:
        self._schema = schema
        self._sql = named(schema, "commit.sql")
        self._marks = marks
        self._clock = clock
        self._kept: set[str] = set()
        """Queues that were found to need a walk."""

    def commit(
        self, connection: Connection, changes: Sequence[Change], claims: Sequence[Claim]
    ) -> Outcome:
        """Commit the changes, then serve the claims."""
        plan = Plan(changes)
        walks = any(self._kept.intersection(claim.queues) for claim in claims)
        if plan.rest or walks or len(claims) > 1:
            return again(lambda: self._at_length(connection, plan, claims))
        try:
            outcome, kept = again(lambda: self._at_once(connection, plan, claims))
        except NotThisWay:
            at_length = Plan(changes, at_length=True)
            return again(lambda: self._in_steps(connection, at_length, claims))
        if kept:
            self._kept.update(claims[0].queues)
            outcome.grants = [again(lambda: self._apart(connection, claims[0]))]
        return outcome

    def _at_once(
        self, connection: Connection, plan: Plan, claims: Sequence[Claim]
    ) -> tuple[Outcome, bool]:
        """All in one round trip; says whether the claim is still to be served, with a walk."""
        outcome = Outcome(len(plan.changes))
        verdicts = self._send(connection, plan, claims, outcome)
        outcome.grants = [verdict.jobs for verdict in verdicts]
        return outcome, any(verdict.kept for verdict in verdicts)

    def _at_length(self, connection: Connection, plan: Plan, claims: Sequence[Claim]) -> Outcome:
        """With as many round trips as it takes: first the short way as far as it goes."""
        try:
            return self._in_steps(connection, plan, claims)
        except NotThisWay:
            return self._in_steps(connection, Plan(plan.changes, at_length=True), claims)

    def _in_steps(self, connection: Connection, plan: Plan, claims: Sequence[Claim]) -> Outcome:
        outcome = Outcome(len(plan.changes))
        with transaction(connection):
            seal = read_seal_note(connection, self._schema, plan.changes)
            if seal is not None:
                check_seal(seal, plan.changes)
            self._send(connection, plan, (), outcome)
            if plan.rest:
                self._stage(connection, plan, outcome)
            outcome.grants = [
                self._serve(connection, claim) if seal is None else [] for claim in claims
            ]
        return outcome

    def _apart(self, connection: Connection, claim: Claim) -> list[Job] | None:
        with transaction(connection):
            return self._serve(connection, claim)

    # -- the short way ---------------------------------------------------------------------

    def _send(
        self, connection: Connection, plan: Plan, claims: Sequence[Claim], outcome: Outcome
    ) -> list[Verdict]:
        for queue, due_at in plan.arrivals.soonest.items() if plan.arrivals else ():
            self._marks.placed(queue, due_at)
        asked = [Asking(claim, self._marks) for claim in claims]
        calls: list[tuple[str, Sequence[Any]]] = []
        calls += [("settle", settling(plan.endings))] if plan.endings else []
        calls += [("place", plan.arrivals.parameters)] if plan.arrivals else []
        calls += [("claim", each.parameters(self._clock.given())) for each in asked]
        answers = self._call(connection, calls)
        if plan.endings:
            outcome.eased.update(read(name) for name in answers.pop(0)[0][0])
        if plan.arrivals:
            self._hear_placed(plan, answers.pop(0)[0][0], outcome)
        verdicts = [each.verdict(rows) for each, rows in zip(asked, answers, strict=True)]
        for verdict in verdicts:
            self._clock.hear(verdict.moment)
        return verdicts

    def _call(
        self, connection: Connection, calls: Sequence[tuple[str, Sequence[Any]]]
    ) -> list[list[Row]]:
        """Call routines, all in one round trip and, unless we are in one, one transaction."""
        with short_way(), together(connection) if len(calls) > 1 else nullcontext():
            cursors = [
                connection.execute(self._sql[name], values, binary=True) for name, values in calls
            ]
        return [cursor.fetchall() for cursor in cursors]

    @staticmethod
    def _hear_placed(plan: Plan, ids: Sequence[int], outcome: Outcome) -> None:
        receipts = placed([plan.changes[number] for number in plan.inserting], ids)
        for number, receipt in zip(plan.inserting, receipts, strict=True):
            outcome.receipts[number] = receipt

    # -- the long way ----------------------------------------------------------------------

    def _stage(self, connection: Connection, plan: Plan, outcome: Outcome) -> None:
        changes = [plan.changes[number] for number in plan.rest]
        stage = load_stage(connection, self._schema, changes, self._clock())
        receipts = [stage.commit(change) for change in changes]
        ids = save_stage(connection, self._schema, stage)
        for number, receipt in zip(plan.rest, receipts, strict=True):
            outcome.receipts[number] = numbered(receipt, ids)
        outcome.eased |= stage.eased
        self._remark(stage)

    def _remark(self, stage: Stage) -> None:
        for queue in stage.configured:
            self._marks.forget(queue)
        for job in stage.jobs.values():
            if job.state is QUEUED and stage.before.get(job.id) is not job:
                self._marks.placed(job.queue, job.due_at)

    def _serve(self, connection: Connection, claim: Claim) -> list[Job] | None:
        asked = Asking(claim, self._marks)
        (rows,) = self._call(connection, [("claim", asked.parameters(self._clock.given()))])
        verdict = asked.verdict(rows)
        self._clock.hear(verdict.moment)
        if not verdict.kept:
            self._kept.difference_update(claim.queues)
            return verdict.jobs
        self._kept.update(claim.queues)
        return Walker(connection, self._schema, self._marks).serve(claim, self._clock.given())


def again(attempt: Callable[[], T]) -> T:
    """Try until nobody else is in the way. What was tried has left no trace."""
    for tried in range(_TRIES):
        try:
            return attempt()
        except RETRIED:
            if tried == _TRIES - 1:
                raise
            time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - no secret
    raise AssertionError("unreachable")
