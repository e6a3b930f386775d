"""Schemas with jobs in them, as each version that was ever released leaves them.

A new schema brings its own sample; those before it stay as they are, for their tables do too.
"""

from __future__ import annotations

from collections.abc import Mapping

import psycopg
import pytest

from stoker.kernel.job import State
from stoker.store.files import migrations
from stoker.store.postgres import PostgresStore, schema
from stoker.store.postgres.schema import PACKAGE, within

SAMPLES = {
    1: """
    INSERT INTO stoker.queue (name, settings, queued, running, finished, used, limited, counts_keys,
            key_units, kinds, lanewise)
        VALUES ('mail', '{"key_capacity":1.0}', 2, 1, 1, 1000, true, true, 1000, '{""}', true);
    INSERT INTO stoker.session VALUES (77, 'worker', '{}', 1, 4000000000000000);
    INSERT INTO stoker.job (id, queue, name, payload, bucket, second, due_at, policy, timeout,
            created_at, scheduled_at)
        VALUES (1, 'mail', 'plain', '1', 5, 0, 10, '{"timeout":90000000}', 90000000, 10, 10);
    INSERT INTO stoker.job (id, queue, name, payload, bucket, second, due_at, timeout,
            created_at, scheduled_at, key, lane, counted)
        VALUES (2, 'mail', 'keyed', '2', 0, 0, 20, 86400000000, 20, 20, 'k', '', true);
    INSERT INTO stoker.news (queue, kind, bucket, parties)
        VALUES ('mail', '', 0, '{=k}');
    INSERT INTO stoker.job (id, queue, name, payload, state, bucket, second, due_at, timeout,
            created_at, scheduled_at, attempt, revision, token, session, started_at, until)
        VALUES (3, 'mail', 'running', '3', 1, 0, 0, 30, 86400000000, 30, 30, 1, 1, 99, 77, 31,
            4000000000000000);
    INSERT INTO stoker.job (id, queue, name, payload, state, bucket, second, due_at, timeout,
            created_at, scheduled_at, attempt, revision, ended_at, until)
        VALUES (4, 'mail', 'long', decode(repeat('00', 5000), 'hex'), 3, 0, 0, 40, 86400000000,
            40, 40, 1, 2, 41, 4000000000000000);
    INSERT INTO stoker.queue (name, queued) VALUES ('flood', 4);
    INSERT INTO stoker.job (id, queue, name, payload, bucket, second, due_at, timeout, created_at,
            scheduled_at, joined)
        SELECT id, 'flood', 'drop', '', 0, 0, 50, 86400000000, 50, 50, true
        FROM generate_series(5, 8) AS id;
    INSERT INTO stoker.run (queue, bucket, due_at, first, last) VALUES ('flood', 0, 50, 5, 8);
    SELECT setval('stoker.job_id', 8);
    """,
}

JOBS_OF_SAMPLES = {
    1: [
        ("plain", State.QUEUED, b"1"),
        ("keyed", State.QUEUED, b"2"),
        ("running", State.RUNNING, b"3"),
        ("long", State.FINISHED, bytes(5000)),
        *[("drop", State.QUEUED, b"")] * 4,
    ],
}


def plan(patch: pytest.MonkeyPatch, planned: Mapping[int, str]) -> None:
    """Let there be other steps than there are."""
    patch.setattr(schema, "migrations", lambda package: planned)


def write_released(version: int, url: str) -> None:
    """Make the schema that the release of this version would have left."""
    steps = {number: text for number, text in migrations(PACKAGE).items() if number <= version}
    with pytest.MonkeyPatch.context() as patch:
        plan(patch, steps)
        store = PostgresStore(url)
    with psycopg.connect(store.address.conninfo) as connection:
        connection.execute(within(store.address.schema, SAMPLES[version]).encode())
    store.close()
