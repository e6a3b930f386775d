"""Taking over jobs of another store as they are."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.kernel.job import Job, partition_of
from stoker.store.files import statements
from stoker.store.sqlite.commit import delete, holder_of, insert_whole
from stoker.store.sqlite.rows import COLUMNS
from stoker.store.sqlite.transaction import Transaction
from stoker.store.twins import names_held

_SQL = statements("stoker.store.sqlite.sql", "commit.sql")
_READ = f"SELECT {COLUMNS} FROM job WHERE id = ?"  # noqa: S608


def adopt_all(tx: Transaction, jobs: Sequence[Job]) -> None:
    """Put jobs in place of whatever has their ids or names here."""
    for job in jobs:
        for job_id in {job.id, *(holder_of(tx, name) for name in names_held(job))}:
            _drop(tx, job_id)
        policy = tx.policies.stored(tx.connection, job.policy)
        insert_whole(tx, [(job.id, job)], tx.books.queue(job.queue), policy)
    ids = [job.id for job in jobs if not partition_of(job.id)]
    tx.connection.execute(_SQL["skip_ids"], (max(ids, default=0),))


def _drop(tx: Transaction, job_id: int | None) -> None:
    row = tx.connection.execute(_READ, (job_id,)).get
    if row is not None:
        delete(tx, tx.read_job(row))
