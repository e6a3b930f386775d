"""Making jobs of rows."""

from __future__ import annotations

from typing import Any

from stoker.errors import StoreCorrupt
from stoker.kernel.job import FORMATS, STATES, Job
from stoker.kernel.policy import Policy
from stoker.store.sqlite.library import Connection
from stoker.store.sqlite.policies import Policies
from stoker.store.sqlite.rows import (
    CANCEL_REQUESTED,
    FORMAT,
    ID,
    PAYLOAD,
    POLICY,
    QUEUE,
    STATE,
    UNDECIDED,
    Row,
)


class JobReader:
    """Makes jobs of rows read as COLUMNS, remembering what rows only refer to."""

    def __init__(self, connection: Connection, policies: Policies) -> None:
        self._connection = connection
        self._policies = policies
        self._names: dict[int, str] = {}

    def __call__(self, row: Row) -> Job:
        return Job(*self.facts(row))

    def facts(self, row: Row) -> list[Any]:
        """The job's facts in the order of its fields."""
        facts = list(row)
        facts[QUEUE] = self.queue_name(facts[QUEUE])
        facts[STATE] = STATES[facts[STATE]]
        facts[FORMAT] = FORMATS[facts[FORMAT]]
        facts[POLICY] = self.policy(facts[POLICY])
        facts[CANCEL_REQUESTED] = facts[CANCEL_REQUESTED] == 1
        facts[UNDECIDED] = facts[UNDECIDED] == 1
        if facts[PAYLOAD] is None:
            facts[PAYLOAD] = self._one("SELECT content FROM body WHERE job = ?", facts[ID])
        return facts

    def queue_name(self, queue: int) -> str:
        """The name of a queue. Its number is never used again, so what was read stays true."""
        name = self._names.get(queue)
        if name is None:
            name = self._names[queue] = str(self._one("SELECT name FROM queue WHERE id = ?", queue))
        return name

    def policy(self, stored: int | str | None) -> Policy:
        """The policy a row speaks of."""
        return self._policies.read(self._connection, stored)

    def _one(self, sql: str, reference: int) -> Any:
        found = self._connection.execute(sql, (reference,)).get
        if found is None:
            raise StoreCorrupt(f"a row refers to something that is not there: {sql} {reference}")
        return found
