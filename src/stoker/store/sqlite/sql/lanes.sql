-- Statements about lanes: their heads, and turns.

-- name: buckets_of_lanes
SELECT DISTINCT queue, lane, bucket FROM job WHERE queue = ?1 AND state = 0 AND lane IS NOT NULL

-- name: drop_heads
DELETE FROM head WHERE queue = ?1

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

-- name: join_lane
-- A new job has come into a lane and bucket. Who is not due sleeps until it is.
INSERT INTO head (queue, lane, bucket, kind, turn, due_at, second, job, shut, wakes_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?6 > ?9, iif(?6 > ?9, ?6, NULL))
ON CONFLICT DO UPDATE SET due_at = excluded.due_at, second = excluded.second, job = excluded.job,
    shut = excluded.shut, wakes_at = excluded.wakes_at
WHERE (excluded.due_at, excluded.second, excluded.job) < (due_at, second, job)

-- name: move_head
-- The head of an open lane was taken, and it is known who is next.
UPDATE head SET turn = ?2, due_at = ?3, second = ?4, job = ?5 WHERE id = ?1

-- name: drop_empty
DELETE FROM head WHERE id = ?1

-- name: any_shut
SELECT 1 FROM head WHERE queue = ?1 AND shut = 1 LIMIT 1

-- name: open_lane
UPDATE head SET shut = 0, wakes_at = NULL, turn = max(turn, ?4) -- who is not due then sleeps on
WHERE queue = ?1 AND lane = ?2 AND shut = 1 AND due_at <= ?3

-- name: open_lanes
UPDATE head SET turn = ?3, shut = due_at > ?2, wakes_at = iif(due_at > ?2, due_at, NULL)
WHERE queue = ?1

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
INSERT INTO served (queue, party, turn) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET turn = max(turn, excluded.turn)

-- name: write_turn
UPDATE head SET turn = ?3 WHERE queue = ?1 AND lane = ?2 AND turn <> ?3

-- name: write_clock
UPDATE queue SET clock = ?2 WHERE id = ?1

-- name: level_turns
-- Nobody is further back than the clock.
UPDATE head SET turn = ?4
WHERE queue = ?1 AND kind = ?2 AND shut = 0 AND bucket = ?3 AND turn < ?4

-- name: forget_served
DELETE FROM served WHERE queue = ?1 AND turn <= ?2
