-- Statements of the books: counters and settings of queues, and interned policies.

-- name: queue_by_name
SELECT id, name, settings, queued, running, waiting, finished, failed, cancelled, used, laned,
    clock
FROM queue WHERE name = ?

-- name: add_queue
INSERT INTO queue (name) VALUES (?)
RETURNING id, name, settings, queued, running, waiting, finished, failed, cancelled, used, laned,
    clock

-- name: write_queue
UPDATE queue SET queued = ?2, running = ?3, waiting = ?4, finished = ?5, failed = ?6,
    cancelled = ?7, used = ?8, laned = ?9
WHERE id = ?1

-- name: write_settings
UPDATE queue SET settings = ?2, within = ?3 WHERE id = ?1

-- name: members
SELECT name, used FROM queue WHERE within = ?1

-- name: turn_order
-- The queue's order changes: the rank moves to the other column, for those that wait in line.
-- Asked for in two halves, since each of them has an index.
UPDATE job SET bucket = second, second = bucket WHERE id IN (
    SELECT id FROM job WHERE queue = ?1 AND state = 0 AND lane IS NULL
    UNION ALL
    SELECT id FROM job WHERE queue = ?1 AND state = 0 AND lane IS NOT NULL
)

-- name: change_lanes
-- The lanes of a queue that has limits (?2), some by task (?3). One that has none has no lanes.
UPDATE job SET lane = CASE
        WHEN NOT ?2 THEN NULL
        WHEN weight = 0 THEN '!'
        WHEN name IN (SELECT value FROM json_each(?3))
            THEN '~' || length(name) || ':' || name || coalesce('=' || key, '')
        ELSE '=' || key END
WHERE id IN (
    SELECT id FROM job WHERE queue = ?1 AND state = 0 AND lane IS NULL
    UNION ALL
    SELECT id FROM job WHERE queue = ?1 AND state = 0 AND lane IS NOT NULL
)

-- name: count_laned
SELECT count(*) FROM job WHERE queue = ?1 AND state = 0 AND lane IS NOT NULL

-- name: policy_id
SELECT id FROM policy WHERE body = ?

-- name: policy_body
SELECT body FROM policy WHERE id = ?

-- name: policy_count
SELECT count(*) FROM policy

-- name: add_policy
INSERT INTO policy (body) VALUES (?) RETURNING id
