"""What the schema says can never be: SQLite itself refuses it, whoever writes."""

from __future__ import annotations

import re

import apsw
import pytest

from stoker.kernel.job import Job
from stoker.store.sqlite import SqliteStore
from tests.store.sqlite.busy_day import desk_at
from tests.store.sqlite.connections import reader, writer

CONTRADICTIONS = {
    # of a job
    "state BETWEEN 0 AND 5": "UPDATE job SET state = 6, ended_at = 1",
    "(state = 1) = (token IS NOT NULL)": "UPDATE job SET state = 1",
    "(state = 2) = (waits_for IS NOT NULL)": "UPDATE job SET waits_for = 'children'",
    "(state > 2) = (ended_at IS NOT NULL)": "UPDATE job SET state = 3",
    "session IS NULL OR state = 1": "UPDATE job SET session = 7",
    "open_children >= 0 AND attempt >= 0 AND weight >= 0": "UPDATE job SET open_children = -1",
    # of the books
    "queued >= 0": "UPDATE queue SET queued = -1",
    "running >= 0": "UPDATE queue SET running = -1",
    "waiting >= 0": "UPDATE queue SET waiting = -1",
    "finished >= 0": "UPDATE queue SET finished = -1",
    "failed >= 0": "UPDATE queue SET failed = -1",
    "cancelled >= 0": "UPDATE queue SET cancelled = -1",
    "used >= 0": "UPDATE queue SET used = -1",
    "laned >= 0": "UPDATE queue SET laned = -1",
}

MORE_CONTRADICTIONS = [
    ("(state = 1) = (token IS NOT NULL)", "UPDATE job SET token = 7"),
    ("(state = 2) = (waits_for IS NOT NULL)", "UPDATE job SET state = 2"),
    ("(state > 2) = (ended_at IS NOT NULL)", "UPDATE job SET ended_at = 7"),
    (
        "open_children >= 0 AND attempt >= 0 AND weight >= 0",
        "UPDATE job SET attempt = -1",
    ),
    ("open_children >= 0 AND attempt >= 0 AND weight >= 0", "UPDATE job SET weight = -1"),
]

TWINS = {
    "job.unique_key": "UPDATE job SET unique_key = 'same'",
    "job.ref": "UPDATE job SET ref = 'same'",
    "queue.name": "UPDATE queue SET name = 'same'",
    "policy.body": "INSERT INTO policy (body) VALUES ('same'), ('same')",
    "head.queue, head.lane, head.bucket": """
        INSERT INTO head (queue, lane, bucket, kind, turn, due_at, second, job)
        VALUES (1, '=k', 0, '', 0, 1, 0, 1), (1, '=k', 0, '', 0, 2, 0, 2)""",
}


@pytest.fixture
def connection(store: SqliteStore) -> apsw.Connection:
    """The writer's connection, with two queued jobs in two queues."""
    desk_at(store).intake.enqueue_many([Job("q"), Job("r")])
    return writer(store)


def checks_in(schema: str) -> set[str]:
    """The conditions of all CHECKs: from the opening bracket to the one that closes it."""
    found = set()
    for start in re.finditer(r"CHECK \(", schema):
        depth, end = 1, start.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(schema[end], 0)
            end += 1
        found.add(schema[start.end() : end - 1])
    return found


@pytest.mark.parametrize(
    ("condition", "statement"), [*CONTRADICTIONS.items(), *MORE_CONTRADICTIONS]
)
def test_a_row_that_contradicts_itself_is_refused(
    condition: str, statement: str, connection: apsw.Connection
) -> None:
    with pytest.raises(apsw.ConstraintError) as refusal:
        connection.execute(statement)
    assert str(refusal.value) == f"CHECK constraint failed: {condition}"


def test_every_check_of_the_schema_has_its_contradiction_here(connection: apsw.Connection) -> None:
    tables = connection.execute("SELECT sql FROM sqlite_schema WHERE type = 'table'")
    assert checks_in("\n".join(row[0] for row in tables)) == CONTRADICTIONS.keys()


@pytest.mark.parametrize(("columns", "statement"), TWINS.items())
def test_a_name_that_is_taken_is_refused(
    columns: str, statement: str, connection: apsw.Connection
) -> None:
    with pytest.raises(apsw.ConstraintError) as refusal:
        connection.execute(statement)
    assert str(refusal.value) == f"UNIQUE constraint failed: {columns}"


def test_every_unique_index_of_the_schema_has_its_twins_here(connection: apsw.Connection) -> None:
    indexes = connection.execute(
        """
        SELECT group_concat(tables.name || '.' || columns.name, ', ')
        FROM sqlite_schema AS tables, pragma_index_list(tables.name) AS indexes,
            pragma_index_info(indexes.name) AS columns
        WHERE tables.type = 'table' AND indexes."unique" AND indexes.origin != 'pk'
        GROUP BY indexes.name
        """
    )
    assert {row[0] for row in indexes} == TWINS.keys()


def test_jobs_that_have_ended_may_share_a_unique_key_but_not_a_reference(
    connection: apsw.Connection,
) -> None:
    connection.execute("UPDATE job SET state = 3, ended_at = 1, unique_key = 'same'")
    assert connection.changes() == 2
    with pytest.raises(apsw.ConstraintError, match=r"job\.ref"):
        connection.execute("UPDATE job SET ref = 'same'")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE job SET due_at = 'tomorrow'",
        "UPDATE job SET attempt = 1.5",
        "UPDATE job SET payload = 'text'",
        "UPDATE queue SET queued = 'many'",
    ],
)
def test_a_value_of_the_wrong_type_is_refused(statement: str, connection: apsw.Connection) -> None:
    with pytest.raises(apsw.ConstraintError, match="cannot store"):
        connection.execute(statement)


@pytest.mark.parametrize("column", ["queue", "state", "bucket", "second", "due_at", "name"])
def test_a_fact_that_every_job_has_cannot_be_missing(
    column: str, connection: apsw.Connection
) -> None:
    with pytest.raises(apsw.ConstraintError, match=rf"NOT NULL constraint failed: job\.{column}"):
        connection.execute(f"UPDATE job SET {column} = NULL")  # noqa: S608


def test_no_id_is_given_twice_even_when_its_job_is_gone(store: SqliteStore) -> None:
    desk = desk_at(store)
    gone = desk.intake.enqueue(Job("q")).id
    desk.control.delete(gone)
    store.tidy()
    assert desk.intake.enqueue(Job("q")).id == gone + 1


def test_no_number_of_a_queue_is_given_twice_even_when_it_is_gone(store: SqliteStore) -> None:
    desk = desk_at(store)
    desk.control.delete(desk.intake.enqueue(Job("first")).id)
    store.tidy()
    assert store.survey() == []
    desk.intake.enqueue(Job("second"))
    assert reader(store).execute("SELECT id FROM queue").get == 2
