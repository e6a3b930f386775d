"""Files as each schema that was ever released leaves them.

A new schema brings its own sample; those before it stay as they are, for their files do too.
"""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from stoker.kernel.job import State
from stoker.store.files import migrations
from stoker.store.sqlite.schema import APPLICATION_ID

PACKAGE = "stoker.store.sqlite.sql"

SAMPLES = {
    1: """
    INSERT INTO queue (id, name, settings, queued, running, finished, used, laned)
        VALUES (1, 'mail', '{"key_capacity":1.0}', 2, 1, 1, 1000, 1);
    INSERT INTO policy (id, body) VALUES (1, '{"timeout":90000000}');
    INSERT INTO session VALUES (77, 'worker', '{}', 1, 4000000000000000);
    INSERT INTO job (id, queue, name, payload, state, bucket, second, due_at, policy,
            created_at, scheduled_at)
        VALUES (1, 1, 'plain', x'31', 0, 5, 0, 10, 1, 10, 10);
    INSERT INTO job (id, queue, name, payload, state, bucket, second, due_at,
            created_at, scheduled_at, key, lane)
        VALUES (2, 1, 'keyed', x'32', 0, 0, 0, 20, 20, 20, 'k', '=k');
    INSERT INTO head (queue, lane, bucket, kind, turn, due_at, second, job)
        VALUES (1, '=k', 0, '', 0, 20, 0, 2);
    INSERT INTO job (id, queue, name, payload, state, bucket, second, due_at,
            created_at, scheduled_at, attempt, revision, token, session, started_at)
        VALUES (3, 1, 'running', x'33', 1, 0, 0, 30, 30, 30, 1, 1, 99, 77, 31);
    INSERT INTO job (id, queue, name, payload, state, bucket, second, due_at,
            created_at, scheduled_at, attempt, revision, ended_at, until)
        VALUES (4, 1, 'long', NULL, 3, 0, 0, 40, 40, 40, 1, 2, 41, 4000000000000000);
    INSERT INTO body VALUES (4, zeroblob(5000));
    UPDATE counter SET value = 4 WHERE name = 'job';
    """,
}

JOBS_OF_SAMPLES = {
    1: {
        "plain": (State.QUEUED, b"1"),
        "keyed": (State.QUEUED, b"2"),
        "running": (State.RUNNING, b"3"),
        "long": (State.FINISHED, bytes(5000)),
    },
}


def write_released(version: int, path: Path) -> None:
    """Make the file that the release with this schema would have left."""
    connection = apsw.Connection(os.fspath(path))
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL").fetchall()
    for number in range(1, version + 1):
        connection.execute(migrations(PACKAGE)[number])
    connection.execute(SAMPLES[version])
    connection.execute(f"PRAGMA user_version = {version}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.close()
