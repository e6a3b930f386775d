"""One write transaction: its connection, its books and its moment."""

from __future__ import annotations

from typing import Any

import apsw

from stoker.errors import StoreCorrupt
from stoker.kernel.job import Job
from stoker.kernel.policy import Policy
from stoker.store.sqlite.books import Books, SettingsReader
from stoker.store.sqlite.policies import Policies
from stoker.store.sqlite.rows import Row, job_of


class JobReader:
    """Makes jobs of rows, remembering what rows only refer to."""

    def __init__(self, connection: apsw.Connection, policies: Policies) -> None:
        self._connection = connection
        self._policies = policies
        self._names: dict[int, str] = {}

    def __call__(self, row: Row) -> Job:
        return job_of(row, self._queue_name, self._policy, self._body)

    def _queue_name(self, queue: int) -> str:
        name = self._names.get(queue)
        if name is None:
            name = str(self._one("SELECT name FROM queue WHERE id = ?", queue))
            self._names[queue] = name
        return name

    def _policy(self, stored: int | str | None) -> Policy:
        return self._policies.read(self._connection, stored)

    def _body(self, job: int) -> bytes:
        return bytes(self._one("SELECT content FROM body WHERE job = ?", job))

    def _one(self, sql: str, reference: int) -> Any:
        found = self._connection.execute(sql, (reference,)).get
        if found is None:
            raise StoreCorrupt(f"a row refers to something that is not there: {sql} {reference}")
        return found


class Transaction:
    """What the committer and the claimer share."""

    def __init__(
        self,
        connection: apsw.Connection,
        read_job: JobReader,
        policies: Policies,
        read_settings: SettingsReader,
        now: int,
    ) -> None:
        self.connection = connection
        self.read_job = read_job
        self.policies = policies
        self.books = Books(connection, read_settings)
        self.now = now
