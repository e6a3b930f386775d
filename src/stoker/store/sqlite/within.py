"""One Change inside a transaction of somebody else's: all of it or nothing, and no more than it.

Nothing is remembered of what was read or numbered here, since the transaction may be rolled back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stoker.errors import LeaseLost
from stoker.kernel.change import Change
from stoker.store import Receipt
from stoker.store.rings import rings_of
from stoker.store.seal import SEAL, check_seal
from stoker.store.sqlite.commit import commit_all
from stoker.store.sqlite.library import Connection, Lent
from stoker.store.sqlite.look import SQL
from stoker.store.sqlite.policies import Policies
from stoker.store.sqlite.queue_book import SettingsReader
from stoker.store.sqlite.reader import JobReader
from stoker.store.sqlite.transaction import Transaction


class Written(NamedTuple):
    """A Change that was written, and who is to be told when it is committed."""

    receipt: Receipt
    rings: set[str]
    version: int | None
    """Of the file before the commit; None if there is no more to wait for."""


def write_within(lent: Lent, change: Change, now: int, version: Callable[[], int]) -> Written:
    """Write a Change over a connection that was lent to us.

    Where a write would begin a transaction this does, and leaves it open; where its owner begins
    them but has not, the Change is a transaction of its own.
    """
    connection = lent.connection
    alone = not connection.in_transaction
    connection.execute("BEGIN IMMEDIATE" if alone else "SAVEPOINT stoker")
    try:
        receipt, rings = _committed(connection, change, now)
        before = version()
    except BaseException:
        _undo(connection, alone=alone)
        raise
    if not receipt.ok:
        _undo(connection, alone=alone)
        _check_lease(connection, receipt)
        return Written(receipt, set(), None)
    if not alone:
        connection.execute("RELEASE stoker")
    elif not lent.begins:
        connection.execute("COMMIT")
        return Written(receipt, rings, None)
    return Written(receipt, rings, before)


def _committed(connection: Connection, change: Change, now: int) -> tuple[Receipt, set[str]]:
    seal = connection.execute(SQL["seal"], (SEAL,)).get
    if seal is not None:
        check_seal(seal, [change])
    policies = Policies()
    read_job = JobReader(connection, policies)
    with Transaction(connection, read_job, policies, SettingsReader(), now) as tx:
        (receipt,) = commit_all(tx, [change])
    return receipt, rings_of([change]) | tx.books.eased


def _undo(connection: Connection, *, alone: bool) -> None:
    """Leave the transaction as it was. A full disk may have ended it already."""
    if connection.in_transaction:
        connection.execute("ROLLBACK" if alone else "ROLLBACK TO stoker; RELEASE stoker")


def _check_lease(connection: Connection, receipt: Receipt) -> None:
    """Whoever has lost its job must not commit what it did for it, even if it goes on."""
    if receipt.stale:
        if connection.in_transaction:
            connection.execute("ROLLBACK; BEGIN")  # its owner will end it once more
        raise LeaseLost(f"job {receipt.stale[0]} is no longer yours; stop working on it")
