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
        WHEN weight = 0 THEN '!'
        WHEN (settings::jsonb -> 'tasks') ? job.name
            OR (settings::jsonb -> 'task_rates') ? job.name THEN '~' || job.name
        WHEN key IS NOT NULL THEN '' END)
"""

# Those who stand in line with others, and in no run of them.
_STRAYED = """
SELECT id FROM stoker.job WHERE joined AND NOT EXISTS (
    SELECT FROM stoker.run WHERE job.id BETWEEN first AND last AND run.queue = job.queue
        AND run.bucket = job.bucket AND run.due_at = job.due_at AND job.second = 0)
"""

# Of those that hold capacity, the ones that a task's or a key's limit is about.
_UNCOUNTED = """
SELECT job.id FROM stoker.job JOIN stoker.queue ON queue.name = job.queue
WHERE (state = 1 OR state = 2 AND waits_for LIKE 'reply:%') AND (
    weight > 0 AND '~' || job.name = ANY (kinds) AND lane IS DISTINCT FROM '~' || job.name
    OR counted IS DISTINCT FROM (key IS NOT NULL AND counts_keys))
"""

_MISJUDGED = """
SELECT id FROM stoker.job WHERE (timeout, stays, repeats) IS DISTINCT FROM (
    CASE WHEN policy IS NULL OR NOT policy::jsonb ? 'timeout' THEN 86400000000
        ELSE (policy::jsonb ->> 'timeout')::bigint END,
    coalesce(policy::jsonb ->> 'on_lost' = 'stay', false),
    coalesce(policy::jsonb ->> 'repeat' IS NOT NULL, false))
"""

_SETTINGS = """
SELECT name FROM stoker.queue CROSS JOIN LATERAL (SELECT settings::jsonb AS told) AS word
CROSS JOIN LATERAL (SELECT told ?| '{capacity,rate}'
    AND (NOT told ? 'rate' OR told -> 'rate' ? 'burst')
    AND NOT told ?| '{key_capacity,keys,tasks,key_rate,key_rates,task_rates}'
    AND NOT told ?| '{within,fair,ageing,shares}' AS only_whole) AS kind
CROSS JOIN LATERAL (SELECT (told -> 'rate' ->> 'amount')::double precision AS amount,
    (told -> 'rate' ->> 'burst')::double precision AS burst,
    (told -> 'rate' ->> 'period')::bigint AS period) AS rate
WHERE (paused, time_first, limited, fair, ageing, within, counts_keys, rates_keys, key_units,
    own_units, fill_step, fill_whole, fill_period, lanewise, kinds)
IS DISTINCT FROM (
    coalesce((told ->> 'paused')::boolean, false),
    coalesce(told ->> 'order' = 'time-rank', false),
    told ?| '{capacity,key_capacity,keys,tasks,rate,key_rate,key_rates,task_rates}'
        OR told ?| '{within,fair,ageing}',
    coalesce((told ->> 'fair')::boolean, false),
    (told ->> 'ageing')::bigint,
    told ->> 'within',
    told ?| '{key_capacity,keys,shares}',
    told ?| '{key_rate,key_rates}',
    round((told ->> 'key_capacity')::numeric * 1000)::bigint,
    CASE WHEN only_whole THEN round((told ->> 'capacity')::numeric * 1000)::bigint END,
    CASE WHEN only_whole THEN ceil(1 / amount * period)::bigint END,
    CASE WHEN only_whole THEN ceil(burst / amount * period)::bigint END,
    CASE WHEN only_whole THEN period END,
    only_whole OR told ?| '{key_capacity,fair}'
        AND NOT told ?| '{capacity,keys,tasks,rate,key_rate,key_rates}'
        AND NOT told ?| '{task_rates,within,ageing,turns}',
    '{""}' || ARRAY(SELECT '~' || task FROM (
        SELECT jsonb_object_keys(told -> 'tasks') AS task
        UNION SELECT jsonb_object_keys(told -> 'task_rates')) AS limited
        ORDER BY task COLLATE "C"))
"""

_ATTENDED = """
SELECT count(*) FROM stoker.attend(NULL, ARRAY(SELECT name FROM stoker.queue), NULL)
"""

_HEADS_KEPT = "SELECT queue, party, kind, bucket, turn, major, minor, job, due_at FROM stoker.head"
_HEADS = """
SELECT front.queue, front.party, kind, bucket,
    CASE WHEN fair AND served.reached > clock.reached THEN served.reached ELSE 0 END,
    CASE WHEN ageing IS NOT NULL THEN bucket * ageing + due_at
        WHEN time_first THEN due_at ELSE bucket END,
    CASE WHEN time_first THEN second ELSE due_at END, id, due_at
FROM (
    SELECT DISTINCT ON (queue, party, lane, bucket) queue, party, lane AS kind, bucket, due_at,
        second, id
    FROM stoker.job CROSS JOIN LATERAL (SELECT coalesce('=' || key, '') AS party) AS owner
    WHERE state = 0 AND lane <> '!' ORDER BY queue, party, lane, bucket, due_at, second, id
) AS front JOIN stoker.queue ON queue.name = front.queue
LEFT JOIN stoker.turn AS clock ON clock.queue = front.queue AND clock.party = '!'
LEFT JOIN (
    SELECT queue, party, max(number) AS reached FROM (
        SELECT queue, party, reached AS number FROM stoker.turn
        UNION ALL SELECT queue, party, turn FROM stoker.head) AS told
    GROUP BY queue, party
) AS served ON served.queue = front.queue AND served.party = front.party
"""

# A turn that was reached is as good as none.
_LEVELLED = """
UPDATE stoker.head SET turn = 0 FROM stoker.turn AS clock
WHERE clock.queue = head.queue AND clock.party = '!' AND turn <= clock.reached
"""

# Open lanes have something due; shut ones sleep until it is, or wait for room.
_WRONGLY_OPEN = """
SELECT job FROM stoker.head WHERE shut_until IS NULL AND due_at > (SELECT stoker.moment(NULL))
    OR shut_until < due_at
"""

# Those of whom a head says that they come next in its lane, and they do not.
_MISLED = """
SELECT head.job FROM stoker.head JOIN stoker.queue ON queue.name = head.queue
WHERE cardinality(behind) > 0 AND behind IS DISTINCT FROM (
    SELECT array_agg(ARRAY[due_at, second, id]) FROM (
        SELECT due_at, second, id FROM stoker.job
        WHERE queue = head.queue AND state = 0 AND lane = head.kind AND bucket = head.bucket
            AND coalesce('=' || key, '') = head.party AND (due_at, second, id)
                > (head.due_at, CASE WHEN time_first THEN head.minor ELSE 0 END, head.job)
        ORDER BY due_at, second, id LIMIT array_length(behind, 1)) AS following)
"""


def assert_books_balance(store: PostgresStore) -> None:
    """Recount everything that is counted."""
    address, schema = store.address.conninfo, store.address.schema
    with psycopg.connect(address, cursor_factory=psycopg.RawCursor) as connection:

        def rows(sql: str) -> set[tuple[object, ...]]:
            return set(connection.execute(within(schema, sql)).fetchall())

        unbalanced = connection.execute(named(schema, "check.sql")["unbalanced"], [5]).fetchall()
        assert unbalanced == []
        assert rows(_MISPLACED) == rows(_MISJUDGED) == rows(_SETTINGS) == rows(_UNCOUNTED) == set()
        assert rows(_STRAYED) == set()
        rows(_ATTENDED)  # all news was heard
        assert rows(_WRONGLY_OPEN) == rows(_MISLED) == set()
        connection.execute(within(schema, _LEVELLED))
        assert rows(_HEADS_KEPT) == rows(_HEADS)
        connection.rollback()
