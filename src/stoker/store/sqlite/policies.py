"""Policies are shared by all jobs of a kind, so a row holds only the policy's number.

Past a thousand different ones the table would only grow; further policies stand in the job's own
row, as JSON. So does a policy that repeats, by which an index finds the few jobs that do.
"""

from __future__ import annotations

from typing import cast

import msgspec

from stoker.errors import StoreCorrupt
from stoker.kernel.policy import PLAIN, Policy
from stoker.store.files import statements
from stoker.store.sqlite.library import Connection

_SQL = statements("stoker.store.sqlite.sql", "books.sql")
_MOST = 1000
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Policy)


class Policies:
    """The numbers of policies, remembered. No number is given twice, save after a rollback."""

    def __init__(self) -> None:
        self._by_number: dict[int, Policy] = {}
        self._numbers: dict[Policy, int] = {}
        self._by_text: dict[str, Policy] = {}
        self._new: dict[Policy, int] = {}

    def stored(self, connection: Connection, policy: Policy) -> int | str | None:
        """What a job's row says for its policy. Call within a write transaction."""
        if policy is PLAIN or policy == PLAIN:
            return None
        if policy.repeat is not None:
            return _ENCODER.encode(policy).decode()
        number = self._numbers.get(policy) or self._new.get(policy)
        return number if number is not None else self._intern(connection, policy)

    def read(self, connection: Connection, stored: int | str | None) -> Policy:
        """The policy a job's row speaks of."""
        if stored is None:
            return PLAIN
        if isinstance(stored, str):
            return self._read_text(stored)
        policy = self._by_number.get(stored)
        if policy is None:
            body = connection.execute(_SQL["policy_body"], (stored,)).get
            if body is None:
                raise StoreCorrupt(f"a job refers to policy {stored}, which is not there")
            policy = self._by_number[stored] = _DECODER.decode(cast("str", body))
        return policy

    def committed(self) -> None:
        """The transaction that numbered new policies has succeeded."""
        if self._new:
            self._numbers.update(self._new)
            self._new.clear()

    def _intern(self, connection: Connection, policy: Policy) -> int | str:
        body = _ENCODER.encode(policy).decode()
        number = connection.execute(_SQL["policy_id"], (body,)).get
        if number is None:
            if connection.execute(_SQL["policy_count"]).get >= _MOST:
                return body
            number = connection.execute(_SQL["add_policy"], (body,)).get
        self._new[policy] = number
        return cast("int", number)

    def _read_text(self, text: str) -> Policy:
        if len(self._by_text) > _MOST:
            self._by_text.clear()
        if text not in self._by_text:
            self._by_text[text] = _DECODER.decode(text)
        return self._by_text[text]
