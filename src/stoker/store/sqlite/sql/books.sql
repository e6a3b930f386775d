-- Statements of the books: counters of queues, use of keys, lanes and interned policies.

-- name: queue_by_name
SELECT id, name, settings, queued, running, waiting, finished, failed, cancelled, used, laned
FROM queue WHERE name = ?

-- name: add_queue
INSERT INTO queue (name) VALUES (?)
RETURNING id, name, settings, queued, running, waiting, finished, failed, cancelled, used, laned

-- name: write_queue
UPDATE queue SET queued = ?2, running = ?3, waiting = ?4, finished = ?5, failed = ?6,
    cancelled = ?7, used = ?8, laned = ?9
WHERE id = ?1

-- name: write_settings
UPDATE queue SET settings = ?2 WHERE id = ?1

-- name: turn_order
-- The queue's order changes: the rank moves to the other column, for those that wait in line.
-- Asked for in two halves, since each of them has an index.
UPDATE job SET bucket = second, second = bucket WHERE id IN (
    SELECT id FROM job WHERE queue = ?1 AND state = 0 AND lane IS NULL
    UNION ALL
    SELECT id FROM job WHERE queue = ?1 AND state = 0 AND lane IS NOT NULL
)

-- name: buckets_of_lanes
SELECT DISTINCT queue, lane, bucket FROM job WHERE queue = ?1 AND state = 0 AND lane IS NOT NULL

-- name: drop_heads
DELETE FROM head WHERE queue = ?1

-- name: key_use
SELECT used FROM key_use WHERE queue = ?1 AND key = ?2

-- name: write_key_use
INSERT INTO key_use (queue, key, used) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET used = excluded.used

-- name: drop_key_use
DELETE FROM key_use WHERE queue = ?1 AND key = ?2

-- name: foremost
SELECT due_at, second, id FROM job
WHERE queue = ?1 AND state = 0 AND lane = ?2 AND bucket = ?3
ORDER BY due_at, second, id LIMIT 1

-- name: write_head
INSERT INTO head (queue, lane, bucket, due_at, second, job) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO UPDATE SET
    due_at = excluded.due_at, second = excluded.second, job = excluded.job, shut = 0

-- name: drop_head
DELETE FROM head WHERE queue = ?1 AND lane = ?2 AND bucket = ?3

-- name: open_lane
UPDATE head SET shut = 0 WHERE queue = ?1 AND lane = ?2 AND shut = 1

-- name: open_lanes
UPDATE head SET shut = 0 WHERE queue = ?1 AND shut = 1

-- name: shut_lane
-- Those behind the job that did not fit must not overtake it; those before it may still come.
UPDATE head SET shut = 1 WHERE queue = ?1 AND lane = ?2 AND bucket >= ?3

-- name: policy_id
SELECT id FROM policy WHERE body = ?

-- name: policy_body
SELECT body FROM policy WHERE id = ?

-- name: policy_count
SELECT count(*) FROM policy

-- name: add_policy
INSERT INTO policy (body) VALUES (?) RETURNING id
