"""Serving claims, inside one transaction: what `entrances` chose is started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter

import msgspec

from stoker.kernel import rules
from stoker.kernel.job import FORMATS, RUNNING, Job
from stoker.kernel.policy import Policy
from stoker.store import Claim
from stoker.store.sqlite.entrances import Entrances
from stoker.store.sqlite.lane_view import SQL
from stoker.store.sqlite.rows import (
    ATTEMPT,
    KEY,
    POLICY,
    PROGRESS,
    REVISION,
    SESSION,
    STARTED_AT,
    STATE,
    TOKEN,
    UNTIL,
    Row,
)
from stoker.store.sqlite.transaction import Transaction


def serve_all(tx: Transaction, requests: Sequence[Claim]) -> list[list[Job] | None]:
    """Start the foremost due jobs for each claim; None if its session is not alive.

    Claims on the same queues, one behind the other, share a walk.
    """
    runs = [list(run) for _, run in groupby(requests, key=attrgetter("queues"))]
    return [grant for run in runs for grant in _serve_run(tx, run)]


def _serve_run(tx: Transaction, requests: list[Claim]) -> Iterator[list[Job] | None]:
    alive = [_alive(tx, request.session) for request in requests]
    wanted = sum(request.limit for request, lives in zip(requests, alive, strict=True) if lives)
    known = (tx.books.known(name) for name in dict.fromkeys(requests[0].queues))
    entrances = Entrances(tx, [book for book in known if book is not None], wanted)
    chosen = iter(entrances.chosen())
    for request, lives in zip(requests, alive, strict=True):
        yield _started(tx, request, islice(chosen, request.limit)) if lives else None
    entrances.close()


def _started(tx: Transaction, request: Claim, rows: Iterable[Row]) -> list[Job]:
    starter = _Starter(tx, request)
    started = [starter.start(row) for row in rows]
    if started:
        _start(tx, request, started)
    return started


def _alive(tx: Transaction, session: int | None) -> bool:
    if session is None:
        return True
    return tx.connection.execute(SQL["alive"], (session, tx.now)).get is not None


class _Starter:
    """`rules.start` on rows: the same facts, set without making the queued job first.

    What the rule says of the lease depends on the policy alone, and is asked once for each; a
    job started so, without anything else, also tells what a bare one is like afterwards.
    """

    def __init__(self, tx: Transaction, request: Claim) -> None:
        self._tx = tx
        self._request = request
        self._samples: dict[Policy, Job] = {}
        self._bare: dict[tuple[int, int | str | None], tuple[str, Policy, Row]] = {}

    def start(self, row: Row) -> Job:
        job_id, rank, due_at, name, key, weight, *others = row
        queue, payload, form, stored, created, scheduled, bare, *_ = others
        if not bare:
            return self._start_whole(self._tx.connection.execute(SQL["job"], (job_id,)).get)
        common = self._bare.get((queue, stored))
        if common is None:
            common = self._bare[queue, stored] = self._in_common(queue, stored)
        queue_name, policy, rest = common
        first = (queue_name, name, payload, FORMATS[form], job_id, RUNNING, rank, due_at, policy)
        return Job(*first, created, scheduled, weight, key, *rest)

    def _start_whole(self, row: Row) -> Job:
        facts = self._tx.read_job.facts(row)
        sample = self._sample(facts[POLICY])
        facts[STATE] = RUNNING
        facts[TOKEN] = sample.token
        facts[SESSION] = sample.session
        facts[UNTIL] = sample.until
        facts[STARTED_AT] = sample.started_at
        facts[ATTEMPT] += 1
        facts[REVISION] += 1
        facts[PROGRESS] = 0.0
        return Job(*facts)

    def _in_common(self, queue: int, stored: int | str | None) -> tuple[str, Policy, Row]:
        reader = self._tx.read_job
        policy = reader.policy(stored)
        started = msgspec.structs.astuple(self._sample(policy))
        return reader.queue_name(queue), policy, started[KEY + 1 :]

    def _sample(self, policy: Policy) -> Job:
        sample = self._samples.get(policy)
        if sample is None:
            asked = self._request
            sample = self._samples[policy] = rules.start(
                Job("", policy=policy),
                now=self._tx.now,
                token=asked.token,
                session=asked.session,
                visibility=asked.visibility,
            )
        return sample


def _start(tx: Transaction, request: Claim, started: list[Job]) -> None:
    for (session, until), run in groupby(started, key=attrgetter("session", "until")):
        ids = msgspec.json.encode([job.id for job in run]).decode()
        tx.connection.execute(SQL["start"], (request.token, session, until, tx.now, ids))
    for _, alike in groupby(started, key=attrgetter("queue")):
        tx.books.start(list(alike))
