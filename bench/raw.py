"""The leanest honest job loop on SQLite: one table, one index, no feature at all.

It claims in order, leases by token and keeps what it is told, so it is a queue; it has no states
beyond three, no counters, no checks, no wake-ups and no gate. What we add is measured against it.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

import apsw

from bench.plan import portions
from stoker.store.clock import wall_clock
from stoker.store.sqlite.driver import Sync

PAYLOAD = b'"' + b"x" * 98 + b'"'
QUEUE = 1

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS job (
        id      INTEGER PRIMARY KEY,
        queue   INTEGER NOT NULL,
        rank    INTEGER NOT NULL,
        due_at  INTEGER NOT NULL,
        state   INTEGER NOT NULL,
        token   INTEGER,
        payload BLOB,
        result  BLOB
    ) STRICT;
    CREATE INDEX IF NOT EXISTS job_ready ON job (queue, rank, due_at, id) WHERE state = 0;
"""
_INSERT = "INSERT INTO job (queue, rank, due_at, state, payload) VALUES (?, ?, ?, 0, ?)"
_CLAIM = """
    UPDATE job SET state = 1, token = ?1 WHERE id IN (
        SELECT id FROM job WHERE queue = ?2 AND state = 0 AND due_at <= ?3
        ORDER BY rank, due_at, id LIMIT ?4
    ) RETURNING id, payload
"""
_UNFINISHED = "SELECT count(*) FROM job WHERE state < 3"

Row = tuple[Any, ...]


class Ending(Enum):
    """What is left of a finished job; the values are the raw loop's statements."""

    KEPT = "UPDATE job SET state = 3 WHERE id = ? AND token = ?"
    ANSWERED = "UPDATE job SET state = 3, result = ?3 WHERE id = ?1 AND token = ?2"
    """Each has a result of its own."""
    DELETED = "DELETE FROM job WHERE id = ? AND token = ?"


def result_of(job: int) -> bytes:
    """A short answer that no other job gives."""
    return b'{"ok": true, "job": %d}' % job


def connect(path: Path, sync: Sync) -> apsw.Connection:
    """A connection with the settings our own store uses, as far as they matter for speed."""
    connection = apsw.Connection(os.fspath(path))
    connection.set_busy_timeout(10_000)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 2000")
    connection.execute("PRAGMA cache_size = -16384")
    connection.execute(f"PRAGMA synchronous = {sync.value}")
    return connection


class RawLoop:
    """Jobs in and out, with nothing around the statements."""

    def __init__(self, path: Path, sync: Sync, ending: Ending = Ending.KEPT) -> None:
        self.path = path
        self._connection = connect(path, sync)
        self._connection.execute(_SCHEMA)
        self._ending = ending
        self._tokens = itertools.count(1)
        self._token = 0

    def fill(self, count: int) -> None:
        """Insert jobs, a thousand a commit."""
        for portion in portions(count):
            with self._writing() as connection:
                rows = ((QUEUE, 0, wall_clock(), PAYLOAD) for _ in range(portion))
                connection.executemany(_INSERT, rows)

    def claim(self, batch: int) -> Sequence[Row]:
        """Take the foremost jobs, in a commit of its own."""
        with self._writing():
            return self._claim(batch)

    def finish(self, held: Sequence[Row]) -> None:
        """End the jobs held, in a commit of its own."""
        with self._writing():
            self._finish(held)

    def swap(self, held: Sequence[Row], batch: int) -> Sequence[Row]:
        """End the jobs held and take the next ones, in one commit."""
        with self._writing():
            self._finish(held)
            return self._claim(batch)

    def unfinished(self) -> int:
        """How many jobs have not ended."""
        return int(self._connection.execute(_UNFINISHED).get)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _claim(self, batch: int) -> Sequence[Row]:
        self._token = next(self._tokens)
        asked = (self._token, QUEUE, wall_clock(), batch)
        return self._connection.execute(_CLAIM, asked).fetchall()

    def _finish(self, held: Sequence[Row]) -> None:
        token = self._token
        rows: Iterator[Row] = ((row[0], token) for row in held)
        if self._ending is Ending.ANSWERED:
            rows = ((row[0], token, result_of(row[0])) for row in held)
        self._connection.executemany(self._ending.value, rows)

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
