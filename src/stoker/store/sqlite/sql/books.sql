-- Statements of the books: counters of queues, meters, lanes, turns and interned policies.

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

-- name: drop_all_use
DELETE FROM use WHERE queue = ?1

-- name: count_use
INSERT INTO use (queue, meter, used)
WITH held AS MATERIALIZED (
    SELECT key, name, weight FROM job WHERE queue = ?1 AND weight > 0 AND id IN (
        SELECT id FROM job WHERE state = 1
        UNION ALL
        SELECT id FROM job WHERE state = 2 AND waits_for GLOB 'reply:*')
)
SELECT ?1, '=' || key, sum(weight) FROM held WHERE key IS NOT NULL GROUP BY key
UNION ALL
SELECT ?1, '~' || name, sum(weight) FROM held
WHERE name IN (SELECT value FROM json_each(?2)) GROUP BY name

-- name: buckets_of_lanes
SELECT DISTINCT queue, lane, bucket FROM job WHERE queue = ?1 AND state = 0 AND lane IS NOT NULL

-- name: drop_heads
DELETE FROM head WHERE queue = ?1

-- name: use
SELECT used FROM use WHERE queue = ?1 AND meter = ?2

-- name: all_use
SELECT meter, used FROM use WHERE queue = ?1 LIMIT ?2

-- name: add_use
INSERT INTO use (queue, meter, used) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET used = used + excluded.used

-- name: take_use
UPDATE use SET used = used + ?3 WHERE queue = ?1 AND meter = ?2

-- name: drop_use
DELETE FROM use WHERE queue = ?1 AND meter = ?2 AND used = 0

-- name: write_head
INSERT INTO head (queue, lane, bucket, kind, turn, due_at, second, job, shut, wakes_at)
SELECT ?1, ?2, ?3, ?4, ?5, due_at, second, id, due_at > ?6, iif(due_at > ?6, due_at, NULL)
FROM job WHERE queue = ?1 AND state = 0 AND lane = ?2 AND bucket = ?3
ORDER BY due_at, second, id LIMIT 1 -- who is not due sleeps until it is
ON CONFLICT DO UPDATE SET turn = excluded.turn, due_at = excluded.due_at,
    second = excluded.second, job = excluded.job, shut = excluded.shut,
    wakes_at = excluded.wakes_at

-- name: drop_head
DELETE FROM head WHERE queue = ?1 AND lane = ?2 AND bucket = ?3 AND NOT EXISTS (
    SELECT 1 FROM job WHERE queue = ?1 AND state = 0 AND lane = ?2 AND bucket = ?3)

-- name: open_lane
UPDATE head SET shut = 0, wakes_at = NULL -- those that are not due then sleep on
WHERE queue = ?1 AND lane = ?2 AND shut = 1 AND due_at <= ?3

-- name: open_lanes
UPDATE head SET turn = 0, shut = due_at > ?2, wakes_at = iif(due_at > ?2, due_at, NULL)
WHERE queue = ?1 AND (shut = 1 OR turn > 0)

-- name: shut_lane
-- Nobody behind the job that did not fit may overtake it. At the latest it is looked at again when
-- another rank's head falls due, which may come before it.
UPDATE head SET shut = 1, wakes_at = (
    SELECT min(moment) FROM (
        SELECT ?3 AS moment
        UNION ALL
        SELECT due_at FROM head WHERE queue = ?1 AND lane = ?2 AND due_at > ?4)
)
WHERE queue = ?1 AND lane = ?2

-- name: wake_lanes
UPDATE head SET shut = due_at > ?2, wakes_at = iif(due_at > ?2, due_at, NULL)
WHERE queue = ?1 AND wakes_at <= ?2

-- name: flow
SELECT state FROM flow WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND meter = ?2

-- name: write_flow
INSERT INTO flow (queue, meter, state, until)
SELECT id, ?2, ?3, ?4 FROM queue WHERE name = ?1
ON CONFLICT DO UPDATE SET state = excluded.state, until = excluded.until

-- name: write_opening
UPDATE queue SET opens_at = ?2 WHERE id = ?1

-- name: served
SELECT turn FROM served WHERE queue = ?1 AND party = ?2

-- name: all_served
SELECT party, turn FROM served WHERE queue = ?1

-- name: write_served
INSERT INTO served (queue, party, turn) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET turn = excluded.turn

-- name: write_turn
UPDATE head SET turn = ?3 WHERE queue = ?1 AND lane = ?2

-- name: write_clock
UPDATE queue SET clock = ?2 WHERE id = ?1

-- name: level_turns
-- Nobody is further back than the clock.
UPDATE head SET turn = 0 WHERE queue = ?1 AND turn > 0 AND turn <= ?2

-- name: forget_served
DELETE FROM served WHERE queue = ?1 AND turn <= ?2

-- name: policy_id
SELECT id FROM policy WHERE body = ?

-- name: policy_body
SELECT body FROM policy WHERE id = ?

-- name: policy_count
SELECT count(*) FROM policy

-- name: add_policy
INSERT INTO policy (body) VALUES (?) RETURNING id
