"""The leanest honest job loop on PostgreSQL: one table, one index, each step one statement.

It claims in order, leases by token and deletes what is done, so it is a queue, and nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import psycopg

from bench.engines.engine import Place
from bench.plan import portions
from bench.raw import PAYLOAD, QUEUE
from stoker.store.clock import wall_clock

_SCHEMA = """
    CREATE TABLE job (
        id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        queue   integer NOT NULL,
        rank    integer NOT NULL,
        due_at  bigint NOT NULL,
        token   bigint,
        payload bytea NOT NULL
    );
    CREATE INDEX job_ready ON job (queue, rank, due_at, id) WHERE token IS NULL;
"""
_INSERT = """
    INSERT INTO job (queue, rank, due_at, payload)
    SELECT %s, 0, %s, payload FROM unnest(%s::bytea[]) AS payload
"""
_FOREMOST = """
    SELECT id FROM job WHERE queue = %(queue)s AND token IS NULL AND due_at <= %(now)s
    ORDER BY rank, due_at, id LIMIT %(batch)s FOR UPDATE SKIP LOCKED
"""
_TAKE = "UPDATE job SET token = %(token)s FROM foremost WHERE job.id = foremost.id"
_END = "DELETE FROM job WHERE id = ANY(%(done)s) AND token = %(held)s"
_CLAIM = f"WITH foremost AS ({_FOREMOST}) {_TAKE} RETURNING job.id, job.payload"
_SWAP = f"WITH ended AS ({_END}), foremost AS ({_FOREMOST}) {_TAKE} RETURNING job.id, job.payload"

Row = tuple[Any, ...]


class RawPostgres:
    """Jobs in and out, with nothing around the statements."""

    def __init__(self, place: Place) -> None:
        self._connection = psycopg.connect(place.url, autocommit=True, prepare_threshold=0)
        self._connection.execute(_SCHEMA, prepare=False)
        self._tokens = itertools.count(1)
        self._token = 0

    def fill(self, count: int) -> None:
        """Insert jobs, a thousand a commit."""
        for portion in portions(count):
            self._connection.execute(_INSERT, (QUEUE, wall_clock(), [PAYLOAD] * portion))

    def claim(self, batch: int) -> Sequence[Row]:
        """Take the foremost jobs."""
        return self._rows(_CLAIM, self._request(batch))

    def finish(self, held: Sequence[Row]) -> None:
        """Delete the jobs held."""
        self._connection.execute(_END, self._done(held))

    def swap(self, held: Sequence[Row], batch: int) -> Sequence[Row]:
        """Both in one statement."""
        done = self._done(held)
        return self._rows(_SWAP, done | self._request(batch))

    def unfinished(self) -> int:
        """How many jobs are left."""
        ((count,),) = self._rows("SELECT count(*) FROM job", {})
        return int(count)

    def close(self) -> None:
        """Let go of the server."""
        self._connection.close()

    def _rows(self, statement: Any, facts: dict[str, Any]) -> list[Row]:
        return self._connection.execute(statement, facts, binary=True).fetchall()

    def _request(self, batch: int) -> dict[str, Any]:
        self._token = next(self._tokens)
        return {"token": self._token, "queue": QUEUE, "now": wall_clock(), "batch": batch}

    def _done(self, held: Sequence[Row]) -> dict[str, Any]:
        return {"done": [row[0] for row in held], "held": self._token}
