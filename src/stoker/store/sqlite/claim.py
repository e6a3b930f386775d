"""Serving claims, inside one transaction: what `entrances` chose is started."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from operator import attrgetter

import msgspec

from stoker.kernel import rules
from stoker.kernel.job import FORMATS, RUNNING, Job
from stoker.kernel.policy import Policy
from stoker.store import Claim
from stoker.store.sqlite.entrances import Entrances
from stoker.store.sqlite.lane_view import SQL
from stoker.store.sqlite.many import for_all
from stoker.store.sqlite.rows import (
    ATTEMPT,
    ID,
    KEY,
    POLICY,
    PROGRESS,
    REVISION,
    SESSION,
    STARTED_AT,
    STATE,
    TOKEN,
    UNTIL,
    Candidate,
    Row,
)
from stoker.store.sqlite.transaction import Transaction

_ID_CHOSEN, _BARE_CHOSEN = map(Candidate._fields.index, ("id", "bare"))


def serve_all(tx: Transaction, requests: Sequence[Claim]) -> list[list[Job] | None]:
    """Start the foremost due jobs for each claim; None if its session is not alive.

    Claims on the same queues, one behind the other, share a walk.
    """
    runs = [list(run) for _, run in groupby(requests, key=attrgetter("queues"))]
    return [grant for run in runs for grant in _serve_run(tx, run)]


def _serve_run(tx: Transaction, requests: list[Claim]) -> list[list[Job] | None]:
    alive = _alive(tx, requests)
    wanted = sum(request.limit for request in requests if request.session in alive)
    if not wanted:
        return [[] if request.session in alive else None for request in requests]
    known = (tx.books.known(name) for name in dict.fromkeys(requests[0].queues))
    entrances = Entrances(tx, [book for book in known if book is not None], wanted)
    rows = entrances.chosen()
    chosen, whole = iter(rows), _whole_rows(tx, rows)
    grants: list[list[Job] | None] = []
    for request in requests:
        own = islice(chosen, request.limit) if request.session in alive else None
        grants.append(None if own is None else _Starter(tx, request, whole).start(own))
    _start(tx, [job for grant in grants for job in grant or ()])
    entrances.close()
    return grants


def _alive(tx: Transaction, requests: list[Claim]) -> set[int | None]:
    """The sessions that live; who claims without one needs none."""
    named = {request.session for request in requests}
    if named == {None}:
        return {None}
    rows = tx.connection.execute(SQL["alive"], (_listed(named - {None}), tx.now))
    return {None, *(session for (session,) in rows)}


def _whole_rows(tx: Transaction, rows: Sequence[Row]) -> dict[int, Row]:
    """All that is known of those that are not bare, by their ids."""
    ids = [row[_ID_CHOSEN] for row in rows if not row[_BARE_CHOSEN]]
    found = tx.connection.execute(SQL["jobs"], (_listed(ids),)) if ids else ()
    return {row[ID]: row for row in found}


def _listed(numbers: Iterable[int | None]) -> str:
    return msgspec.json.encode(list(numbers)).decode()


class _Starter:
    """`rules.start` on rows: the same facts, set without making the queued job first.

    What the rule says of the lease depends on the policy alone, and is asked once for each; a
    job started so, without anything else, also tells what a bare one is like afterwards.
    """

    def __init__(self, tx: Transaction, request: Claim, whole: dict[int, Row]) -> None:
        self._tx = tx
        self._request = request
        self._whole = whole
        self._samples: dict[Policy, Job] = {}
        self._bare: dict[tuple[int, int | str | None], tuple[str, Policy, Row]] = {}

    def start(self, rows: Iterable[Row]) -> list[Job]:
        """The jobs of these rows, as they are when the claim has started them."""
        return [self._started(row) for row in rows]

    def _started(self, row: Row) -> Job:
        job_id, rank, due_at, name, key, weight, *others = row
        queue, payload, form, stored, created, scheduled, bare, *_ = others
        if not bare:
            return self._start_whole(self._whole[job_id])
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


def _start(tx: Transaction, started: list[Job]) -> None:
    alone: list[Row] = []
    for lease, run in groupby(started, key=attrgetter("token", "session", "until")):
        ids = [job.id for job in run]
        if len(ids) == 1:
            alone.append((*ids, *lease, tx.now))
        else:
            tx.connection.execute(SQL["start_alike"], (*lease, tx.now, _listed(ids)))
    for_all(tx.connection, SQL["start_each"], alone)
    for _, alike in groupby(started, key=attrgetter("queue")):
        tx.books.start(list(alike))
