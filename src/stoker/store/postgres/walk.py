"""Walking queues with care: as far as their limits let jobs in, and several orders side by side.

The limited ones, and those that they are within, are locked against other claims meanwhile. What
may start is decided by `stoker.store.walk`, from what `sights` shows of the lanes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from stoker.kernel.job import Job
from stoker.store import Claim
from stoker.store.choosing import choose
from stoker.store.postgres.arrays import Bigints, Texts
from stoker.store.postgres.begun import ID, QUEUE, heading_of, jobs_of
from stoker.store.postgres.claim import Verdict, mark_arrays
from stoker.store.postgres.driver import Arrive, Connection, Cursor
from stoker.store.postgres.entrances import Entrances
from stoker.store.postgres.marks import Marks
from stoker.store.postgres.rows import Row
from stoker.store.postgres.schema import named
from stoker.store.postgres.sights import Candidate, Sights
from stoker.store.postgres.texts import read
from stoker.store.postgres.traces import Walk, charged_for, traces


class Walker:
    """Serves one claim within a transaction. What it has to know is asked for at once."""

    def __init__(
        self,
        connection: Connection,
        arrive: Arrive,
        schema: str,
        marks: Marks,
        claim: Claim,
        given: int | None,
    ) -> None:
        self.queues = list(dict.fromkeys(claim.queues))
        self._connection = connection
        self._arrive = arrive
        self._sql = named(schema, "walk.sql")
        self._marks = marks
        self._claim = claim
        self._given = given
        self._began = time.monotonic()
        self._by = marks.for_claim(self.queues)
        self._most = claim.limit + 1
        names = Texts.of(self.queues)
        self._attended = self._run("attend", given, names, claim.session)
        self._seen = self._run("sights", given, names, self._most, *mark_arrays(self._by))

    def _run(self, name: str, *values: Any) -> Cursor:
        return self._connection.execute(self._sql[name], values, binary=True)

    def _ask(self, name: str, *values: Any) -> list[Row]:
        cursor = self._run(name, *values)
        self._arrive()
        return cursor.fetchall()

    def serve(self) -> Verdict:
        """Start the foremost due jobs that may enter, by the clock given or the server's. They are
        to be read when the transaction is over: others wait for that."""
        self._arrive()
        (_, verdict, now, *_), *known = self._attended.fetchall()
        if verdict in ("dead", "sealed"):
            return Verdict(now, None if verdict == "dead" else [], kept=True)
        entrances = Entrances(known, now)
        walks = self._walks(entrances)
        chosen = choose([walk.line for walk in walks], self._claim.limit)
        begun = self._begin(chosen, now)
        charged = entrances
        if entrances.rated or len(begun.rows) < len(chosen):
            charged = charged_for(begun.taken(chosen), entrances, begun.moment)
        for name, values in traces(walks, chosen, begun.rows.keys(), entrances, charged):
            self._run(name, *values)
        read = partial(self._read, walks, chosen, begun)
        return Verdict(now, read, kept=verdict == "kept", laned=verdict == "laned")

    def _read(self, walks: list[Walk], chosen: Sequence[Candidate], begun: _Begun) -> list[Job]:
        jobs = begun.jobs(chosen)
        whole = not self._by
        self._marks.note(self._began, whole=whole, scarce=len(jobs) < self._claim.limit)
        for walk in walks:
            walk.move_marks(self._marks, jobs, whole=whole)
        return jobs

    def _walks(self, entrances: Entrances) -> list[Walk]:
        lines = groupby(self._seen.fetchall(), key=itemgetter(0))
        rows = {read(name): list(rows) for name, rows in lines}
        return [
            Walk(Sights(self._ask, queue, rows.get(queue, ()), entrances, self._by, self._most))
            for queue in self.queues
            if not entrances.paused(queue)
        ]

    def _begin(self, chosen: Sequence[Candidate], now: int) -> _Begun:
        """They start from now on, not from when the walk began: jobs whose end has made room for
        them may have ended meanwhile."""
        if not chosen:
            return _Begun(self._claim, now, {})
        ids, revisions = [each.id for each in chosen], [each.revision for each in chosen]
        lease = (self._claim.token, self._claim.session, self._claim.visibility)
        rows = self._ask("begin", self._given, *lease, Bigints.of(ids), Bigints.of(revisions))
        begun = {row[ID]: row for row in rows[1:]}
        return _Begun(self._claim, heading_of(rows[0]).moment, begun)


class _Begun(NamedTuple):
    """What a claim has begun and when: the rows of those that were still there, by their ids."""

    claim: Claim
    moment: int
    rows: Mapping[int, Row]

    def jobs(self, chosen: Sequence[Candidate]) -> list[Job]:
        """The jobs, in the order in which they were chosen."""
        rows = [self.rows[each.id] for each in chosen if each.id in self.rows]
        return jobs_of(rows, self.claim, self.moment)

    def taken(self, chosen: Sequence[Candidate]) -> list[tuple[str, Candidate]]:
        """The same, as far as they were looked at, each with its queue."""
        rows = self.rows
        return [(read(rows[each.id][QUEUE]), each) for each in chosen if each.id in rows]
