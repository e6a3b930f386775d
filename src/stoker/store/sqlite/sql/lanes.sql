-- Statements about lanes: their heads, and turns.

-- name: buckets_of_lanes
SELECT DISTINCT queue, lane, bucket FROM job WHERE queue = ?1 AND state = 0 AND lane IS NOT NULL

-- name: drop_heads
DELETE FROM head WHERE queue = ?1

-- name: write_head
WITH given (queue, lane, bucket, kind, turn, now) AS (VALUES (?, ?, ?, ?, ?, ?))
INSERT INTO head (queue, lane, bucket, kind, turn, due_at, second, job, shut, wakes_at)
SELECT given.queue, given.lane, given.bucket, kind, turn, due_at, second, job.id, due_at > now,
    iif(due_at > now, due_at, NULL) -- who is not due sleeps until it is
FROM given CROSS JOIN job ON job.id = (
    SELECT id FROM job AS foremost
    WHERE queue = given.queue AND state = 0 AND lane = given.lane AND bucket = given.bucket
    ORDER BY due_at, second, id LIMIT 1)
WHERE true
ON CONFLICT DO UPDATE SET turn = excluded.turn, due_at = excluded.due_at,
    second = excluded.second, job = excluded.job, shut = excluded.shut,
    wakes_at = excluded.wakes_at

-- name: drop_head
DELETE FROM head WHERE (queue, lane, bucket) IN (VALUES (?, ?, ?)) AND NOT EXISTS (
    SELECT 1 FROM job
    WHERE queue = head.queue AND state = 0 AND lane = head.lane AND bucket = head.bucket)

-- name: join_lane
-- A new job has come into a lane and bucket. Who is not due sleeps until it is.
WITH given (queue, lane, bucket, kind, turn, due_at, second, job, now) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?))
INSERT INTO head (queue, lane, bucket, kind, turn, due_at, second, job, shut, wakes_at)
SELECT queue, lane, bucket, kind, turn, due_at, second, job, due_at > now,
    iif(due_at > now, due_at, NULL)
FROM given WHERE true
ON CONFLICT DO UPDATE SET due_at = excluded.due_at, second = excluded.second, job = excluded.job,
    shut = excluded.shut, wakes_at = excluded.wakes_at
WHERE (excluded.due_at, excluded.second, excluded.job) < (due_at, second, job)

-- name: move_head
-- The head of an open lane was taken, and it is known who is next. The head is there: an UPDATE says
-- the same, but goes through all of them twice.
WITH given (head, turn, due_at, second, job) AS (VALUES (?, ?, ?, ?, ?))
INSERT INTO head (id, queue, lane, bucket, kind, turn, due_at, second, job)
SELECT head, 0, '', 0, '', turn, due_at, second, job FROM given WHERE true
ON CONFLICT (id) DO UPDATE SET turn = excluded.turn, due_at = excluded.due_at,
    second = excluded.second, job = excluded.job

-- name: drop_empty
DELETE FROM head WHERE id IN (VALUES (?))

-- name: any_shut
SELECT 1 FROM head WHERE queue = ?1 AND shut = 1 LIMIT 1

-- name: shut_lanes
SELECT lane FROM head WHERE queue = ?1 AND shut = 1 LIMIT ?2

-- name: open_lane
-- Who is not due then sleeps on.
WITH given (queue, lane, now, turn) AS (VALUES (?, ?, ?, ?))
UPDATE head INDEXED BY head_shut -- not by one that is made for the occasion
SET shut = 0, wakes_at = NULL, turn = max(head.turn, given.turn)
FROM given
WHERE head.queue = given.queue AND head.lane = given.lane AND shut = 1 AND due_at <= now

-- name: open_lanes
UPDATE head SET turn = ?3, shut = due_at > ?2, wakes_at = iif(due_at > ?2, due_at, NULL)
WHERE queue = ?1

-- name: shut_lane
-- Nobody behind the job that did not fit may overtake it. At the latest it is looked at again when
-- another rank's head falls due, which may come before it.
WITH given (queue, lane, opens_at, now) AS (VALUES (?, ?, ?, ?))
UPDATE head SET shut = 1, wakes_at = (
    SELECT min(moment) FROM (
        SELECT opens_at AS moment
        UNION ALL
        SELECT due_at FROM head AS other
        WHERE other.queue = given.queue AND other.lane = given.lane AND due_at > now)
)
FROM given WHERE head.queue = given.queue AND head.lane = given.lane

-- name: wake_lanes
UPDATE head SET shut = due_at > ?2, wakes_at = iif(due_at > ?2, due_at, NULL),
    turn = max(turn, ?3)
WHERE queue = ?1 AND wakes_at <= ?2

-- name: served
SELECT turn FROM served WHERE queue = ?1 AND party = ?2

-- name: turn_of_lane
SELECT max(turn) FROM head WHERE queue = ?1 AND lane = ?2

-- name: all_served
SELECT party, turn FROM served WHERE queue = ?1

-- name: turns_of_lanes
SELECT lane, max(turn) FROM head WHERE queue = ?1 AND kind <> '!' AND turn > ?2 GROUP BY lane

-- name: write_served
INSERT INTO served (queue, party, turn) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET turn = max(turn, excluded.turn)

-- name: write_turn
WITH given (queue, lane, turn) AS (VALUES (?, ?, ?))
UPDATE head SET turn = given.turn FROM given
WHERE head.queue = given.queue AND head.lane = given.lane AND head.turn <> given.turn

-- name: write_clock
UPDATE queue SET clock = ?2 WHERE id = ?1

-- name: level_turns
-- Nobody is further back than the clock.
UPDATE head SET turn = ?4
WHERE queue = ?1 AND kind = ?2 AND shut = 0 AND bucket = ?3 AND turn < ?4

-- name: forget_served
DELETE FROM served WHERE queue = ?1 AND turn <= ?2
