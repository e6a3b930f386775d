"""Committing a batch: as much of it as possible the short way, the rest the long way.

If all goes the short way, and the claim is for queues without limits, the whole call is one round
trip and one transaction, which the server sees to by itself.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeVar

from stoker.kernel.change import Change
from stoker.kernel.job import QUEUED, Job
from stoker.store import OK, Claim, Receipt
from stoker.store.postgres.arrays import Texts
from stoker.store.postgres.claim import Asking, Verdict, mark_arrays
from stoker.store.postgres.clock import Timepiece
from stoker.store.postgres.driver import (
    RETRIED,
    Arrive,
    Connection,
    Cursor,
    NotThisWay,
    ShortWay,
    sent_ahead,
    together,
)
from stoker.store.postgres.lean import LONE_KINDS, lone_facts, placed
from stoker.store.postgres.line import Question, Standing
from stoker.store.postgres.marks import Marks
from stoker.store.postgres.plan import Plan
from stoker.store.postgres.rows import Row
from stoker.store.postgres.save import eased_by, load_stage, numbered, read_seal_note, save_stage
from stoker.store.postgres.schema import named
from stoker.store.postgres.stage import Stage
from stoker.store.postgres.texts import read
from stoker.store.postgres.walk import Walker
from stoker.store.postgres.ways import Ways
from stoker.store.seal import check_seal

T = TypeVar("T")

_Call = tuple[str, Sequence[Any]]
"""A routine, and what it is told."""
_Grant = Callable[[], Verdict]

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
        self._place_one = Standing(self._sql["place_one"], LONE_KINDS)
        self._marks = marks
        self._clock = clock
        self.ways = Ways()
        self.left: dict[int, Claim] = {}
        """By session: the claim that may still stand."""

    def commit(
        self, connection: Connection, changes: Sequence[Change], claims: Sequence[Claim]
    ) -> Outcome:
        """Commit the changes, then serve the claims."""
        if any(not claim.limit for claim in claims):
            return self._without_claims(connection, changes, claims)
        plan = Plan(changes)
        walks = any(self.ways.need_a_walk(claim.queues) for claim in claims)
        if plan.rest or walks or len(claims) > 1:
            return again(lambda: self._at_length(connection, plan, claims))
        try:
            outcome, kept = again(lambda: self._at_once(connection, plan, claims))
        except NotThisWay:
            at_length = Plan(changes, at_length=True)
            return again(lambda: self._in_steps(connection, at_length, claims))
        if kept:
            outcome.grants = [again(lambda: self._apart(connection, claims[0]))]
        return outcome

    def _without_claims(
        self, connection: Connection, changes: Sequence[Change], claims: Sequence[Claim]
    ) -> Outcome:
        """Whoever asks for nothing only takes back what stands, and it is alone in that."""
        outcome = self.commit(connection, changes, ())
        self._send(connection, [call for claim in claims for call in self._standing(claim)])
        outcome.grants = [[] for _ in claims]
        return outcome

    def place(
        self, connection: Connection, job: Job, then: Question | None, mark: int | None
    ) -> tuple[int, bool]:
        """Take in one new job, and tell its id, and whether it was started for somebody; `then`
        goes along and comes after it."""
        self._marks.placed(job.queue, job.due_at)
        facts = lone_facts(job, self._clock.given(), mark)
        with ShortWay():
            given = again(lambda: self._place_one.ask(connection, facts, then))
        number = int.from_bytes(given, "big", signed=True)
        return abs(number), number < 0

    def _at_once(
        self, connection: Connection, plan: Plan, claims: Sequence[Claim]
    ) -> tuple[Outcome, bool]:
        """All in one round trip; says whether the claim is still to be served, with a walk."""
        outcome = Outcome(len(plan.changes))
        asked = [Asking(claim, self._marks) for claim in claims]
        calls = [*self._calls(plan), *(self._call_of(each) for each in asked)]
        calls += [call for claim in claims for call in self._standing(claim)]
        with ShortWay():
            with together(connection) if len(calls) > 1 else nullcontext():
                cursors = self._send(connection, calls)
            answers = [cursor.fetchall() for cursor in cursors]
        self._hear(plan, answers, outcome)
        # Behind them come those of standing claims, which say nothing.
        verdicts = [each.verdict(rows) for each, rows in zip(asked, answers, strict=False)]
        for each, verdict in zip(asked, verdicts, strict=True):
            self._learn(each.queues, verdict)
        outcome.grants = [verdict.jobs() for verdict in verdicts]
        return outcome, any(verdict.kept for verdict in verdicts)

    def _at_length(self, connection: Connection, plan: Plan, claims: Sequence[Claim]) -> Outcome:
        """With as many round trips as it takes: first the short way as far as it goes."""
        try:
            return self._in_steps(connection, plan, claims)
        except NotThisWay:
            return self._in_steps(connection, Plan(plan.changes, at_length=True), claims)

    def _in_steps(self, connection: Connection, plan: Plan, claims: Sequence[Claim]) -> Outcome:
        outcome = Outcome(len(plan.changes))
        with ShortWay(), sent_ahead(connection) as arrive:
            seal = self._seal(connection, plan)
            cursors = self._send(connection, self._calls(plan))
            if plan.rest:
                self._stage(connection, plan, outcome)
            served = [] if seal is not None else claims
            # The first claim travels with the changes; each of the others sees what it left.
            first = [self._serve(connection, arrive, claim) for claim in served[:1]]
            arrive()
            self._hear(plan, [cursor.fetchall() for cursor in cursors], outcome)
            verdicts = [grant() for grant in first]
            verdicts += [self._serve(connection, arrive, claim)() for claim in served[1:]]
        outcome.grants = [verdict.jobs() for verdict in verdicts]
        outcome.grants += [[] for _ in claims[len(served) :]]
        return outcome

    def _apart(self, connection: Connection, claim: Claim) -> list[Job] | None:
        with sent_ahead(connection) as arrive:
            verdict = self._serve(connection, arrive, claim)()
        return verdict.jobs()

    # -- the short way ---------------------------------------------------------------------

    def _calls(self, plan: Plan) -> list[_Call]:
        """What of a batch goes the short way."""
        for queue, due_at in plan.arrivals.soonest.items() if plan.arrivals else ():
            self._marks.placed(queue, due_at)
        calls: list[_Call] = [*plan.ends]
        calls += [plan.arrivals[:2]] if plan.arrivals else []
        return calls

    def _call_of(self, asked: Asking) -> _Call:
        by_lanes = self.ways.go_by_lanes(asked.queues)
        return ("claim_lanes" if by_lanes else "claim", asked.parameters(self._clock.given()))

    def _standing(self, claim: Claim) -> Iterator[_Call]:
        """Whoever claims stands no more, or again if it is willing to and that is no burden."""
        holder = claim.session
        if holder is None or (claim.stands is not None and self.left.get(holder) == claim):
            return
        queues = list(dict.fromkeys(claim.queues))
        marks = self._marks.known(queues) if claim.stands is not None else []
        if claim.stands is not None and (marks or self._marks.can_be_done_without):
            self.left[holder] = claim
            lease = (claim.token, holder, claim.visibility)
            wish = [self._clock.given(), claim.stands, Texts.of(queues), *lease]
            yield "stand", [*wish, *mark_arrays(marks)]
        elif self.left.pop(holder, None) is not None:
            yield "stand_no_more", [holder]

    def _learn(self, queues: Sequence[str], verdict: Verdict) -> None:
        """Remember the moment, and how these queues are to be claimed from."""
        self._clock.hear(verdict.moment)
        self.ways.learn(queues, kept=verdict.kept, laned=verdict.laned)

    def _send(self, connection: Connection, calls: Sequence[_Call]) -> list[Cursor]:
        return [connection.execute(self._sql[name], values, binary=True) for name, values in calls]

    @staticmethod
    def _hear(plan: Plan, answers: list[list[Row]], outcome: Outcome) -> None:
        """Take from the answers those to what went the short way."""
        for _ in plan.ends:
            outcome.eased.update(read(name) for name in answers.pop(0)[0][0])
        if plan.arrivals:
            ((said,),) = answers.pop(0)
            inserting = [plan.changes[number] for number in plan.inserting]
            receipts = placed(inserting, plan.arrivals, said)
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
        outcome.eased |= eased_by(connection, self._schema, stage)
        self._remark(stage)

    def _remark(self, stage: Stage) -> None:
        for queue in stage.configured:
            self._marks.forget(queue)
        for job in stage.jobs.values():
            if job.state is QUEUED and stage.before.get(job.id) is not job:
                self._marks.placed(job.queue, job.due_at)

    def _seal(self, connection: Connection, plan: Plan) -> bytes | None:
        """The store's seal, if the changes may be made all the same. Routines ask by themselves."""
        seal = read_seal_note(connection, self._schema, plan.changes) if plan.rest else None
        if seal is not None:
            check_seal(seal, plan.changes)
        return seal

    def _serve(self, connection: Connection, arrive: Arrive, claim: Claim) -> _Grant:
        """Ask for jobs; the answer is there when it is asked for."""
        if self.ways.need_a_walk(claim.queues):
            return partial(self._walked, self._walker(connection, arrive, claim))
        asked = Asking(claim, self._marks)
        (cursor,) = self._send(connection, [self._call_of(asked)])
        return partial(self._claimed, connection, arrive, asked, cursor)

    def _walker(self, connection: Connection, arrive: Arrive, claim: Claim) -> Walker:
        given = self._clock.given()
        return Walker(connection, arrive, self._schema, self._marks, claim, given)

    def _claimed(
        self, connection: Connection, arrive: Arrive, asked: Asking, cursor: Cursor
    ) -> Verdict:
        arrive()
        verdict = asked.verdict(cursor.fetchall())
        self._learn(asked.queues, verdict)
        if not verdict.kept:
            return verdict
        return self._walked(self._walker(connection, arrive, asked.claim))

    def _walked(self, walker: Walker) -> Verdict:
        verdict = walker.serve()
        self._learn(walker.queues, verdict)
        return verdict


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
