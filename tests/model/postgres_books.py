"""What PostgreSQL keeps besides the jobs must follow from them: counts, places, lanes, terms."""

from __future__ import annotations

import psycopg

from stoker.store.postgres import PostgresStore
from stoker.store.postgres.schema import named, within

_MISPLACED = """
SELECT job.id FROM stoker.job LEFT JOIN stoker.queue ON queue.name = job.queue
WHERE state = 0 AND (
    CASE WHEN coalesce(time_first, false) THEN bucket ELSE second END <> 0
    OR lane IS DISTINCT FROM CASE WHEN NOT coalesce(limited, false) THEN NULL
        WHEN weight = 0 THEN '!' WHEN key IS NOT NULL THEN '=' || key END)
"""

_MISJUDGED = """
SELECT id FROM stoker.job WHERE (timeout, stays, repeats) IS DISTINCT FROM (
    CASE WHEN policy IS NULL OR NOT policy::jsonb ? 'timeout' THEN 86400000000
        ELSE (policy::jsonb ->> 'timeout')::bigint END,
    coalesce(policy::jsonb ->> 'on_lost' = 'stay', false),
    coalesce(policy::jsonb ->> 'repeat' IS NOT NULL, false))
"""

_SETTINGS = """
SELECT name FROM stoker.queue WHERE (paused, time_first, limited) IS DISTINCT FROM (
    coalesce((settings::jsonb ->> 'paused')::boolean, false),
    coalesce(settings::jsonb ->> 'order' = 'time-rank', false),
    settings::jsonb ?| '{capacity,key_capacity,keys}')
"""

_ATTENDED = "SELECT count(*) FROM stoker.attend(NULL, ARRAY(SELECT name FROM stoker.queue))"

_HEADS_KEPT = "SELECT queue, lane, bucket, due_at, second, job FROM stoker.head"
_HEADS = """
SELECT DISTINCT ON (queue, lane, bucket) queue, lane, bucket, due_at, second, id FROM stoker.job
WHERE state = 0 AND lane <> '!' ORDER BY queue, lane, bucket, due_at, second, id
"""


def assert_books_balance(store: PostgresStore) -> None:
    """Recount everything that is counted."""
    address, schema = store.address.conninfo, store.address.schema
    with psycopg.connect(address, cursor_factory=psycopg.RawCursor) as connection:

        def rows(sql: str) -> set[tuple[object, ...]]:
            return set(connection.execute(within(schema, sql)).fetchall())

        unbalanced = connection.execute(named(schema, "check.sql")["unbalanced"], [5]).fetchall()
        assert unbalanced == []
        assert rows(_MISPLACED) == rows(_MISJUDGED) == rows(_SETTINGS) == set()
        rows(_ATTENDED)  # all news was heard
        assert rows(_HEADS_KEPT) == rows(_HEADS)
        connection.rollback()
