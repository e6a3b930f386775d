-- Statements of the walk through queues that have limits, or orders of their own.

-- name: attend
SELECT name, settings, used, task_use, flows, clock, reached, opens_at
FROM stoker.attend($1, $2, $3)

-- name: sights
SELECT * FROM stoker.sights($1, $2, $3, $4, $5, $6, $7, $8)

-- name: line
SELECT * FROM stoker.line($1, $2, $3, $4, $5, $6, $7, $8)

-- name: heads
SELECT * FROM stoker.heads($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: behind
SELECT id, revision, bucket, due_at, bucket + second, name, key, weight FROM stoker.job
WHERE queue = $1 AND state = 0 AND lane = $2 AND lane <> '!' AND coalesce('=' || key, '') = $3
    AND bucket = $4 AND (due_at, second, id) > ($5, $6, $7)
ORDER BY due_at, second, id LIMIT $8

-- name: free
SELECT id, revision, bucket, due_at, bucket + second, name, key, weight FROM stoker.job
WHERE queue = $1 AND state = 0 AND lane = '!' AND bucket = $2 AND due_at <= $3
    AND (due_at, second, id) > ($4, $5, $6)
ORDER BY due_at, second, id LIMIT $7

-- name: begin
SELECT * FROM stoker.claim($1, '{}', 0, $2, $3, $4, '{}', '{}', '{}', '{}', '{}', $5, $6)

-- name: move_heads
SELECT stoker.move_heads($1, $2, $3, $4, $5, $6, $7)

-- name: look_again
SELECT stoker.look_again($1, $2, $3, $4, $5, $6)

-- name: shut
SELECT stoker.shut($1, $2, $3, $4, $5, $6, $7)

-- name: take_turns
SELECT stoker.take_turns($1, $2, $3)

-- name: write_flows
INSERT INTO stoker.flow (queue, meter, state, until) SELECT * FROM unnest($1, $2, $3, $4)
ON CONFLICT (queue, meter) DO UPDATE SET state = excluded.state, until = excluded.until

-- name: write_openings
UPDATE stoker.queue SET opens_at = word.moment FROM unnest($1, $2) AS word (name, moment)
WHERE queue.name = word.name
