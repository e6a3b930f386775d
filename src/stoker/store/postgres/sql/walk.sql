-- Statements of the walk through queues that have limits, or orders of their own.

-- name: attend
SELECT name, settings, used FROM stoker.attend($1, $2)

-- name: line
SELECT id, revision, bucket, due_at, second, key, weight
FROM stoker.line($1, $2, $3, $4, $5, $6, $7, $8)

-- name: free_line
SELECT id, revision, bucket, due_at, second, key, weight
FROM stoker.free_line($1, $2, $3, $4, $5, $6, $7)

-- name: lanes
SELECT head, head_due, head_second, used, id, revision, bucket, due_at, second, key, weight
FROM stoker.lanes($1, $2, $3, $4, $5, $6, $7, $8)

-- name: behind
SELECT id, revision, bucket, due_at, second, key, weight FROM stoker.job
WHERE queue = $1 AND state = 0 AND lane = $2 AND bucket = $3 AND due_at <= $4
    AND (due_at, second, id) > ($5, $6, $7)
ORDER BY due_at, second, id LIMIT $8

-- name: held
SELECT stoker.held($1, $2)

-- name: begin
SELECT * FROM stoker.claim($1, '{}', 0, $2, $3, $4, '{}', '{}', '{}', '{}', '{}', $5, $6)

-- name: shut
-- Those behind the job that did not fit must not overtake it; those before it may still come.
UPDATE stoker.head SET shut = true WHERE queue = $1 AND lane = $2 AND bucket >= $3
