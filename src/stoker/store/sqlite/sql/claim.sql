-- Statements of the claimer: walking queues in their order, and taking what was chosen.

-- name: alive
SELECT id FROM session WHERE id IN (SELECT value FROM json_each(?)) AND expires_at > ?

-- name: next_bucket
SELECT bucket FROM job
WHERE queue = ?1 AND state = 0 AND lane IS NULL AND bucket > ?2
ORDER BY bucket LIMIT 1

-- name: due_in_bucket
-- BARE_COLUMNS
FROM job
WHERE queue = ?1 AND state = 0 AND lane IS NULL AND bucket = ?2 AND due_at <= ?3
ORDER BY due_at, second, id LIMIT ?4

-- name: next_bucket_of_lane
SELECT bucket FROM job
WHERE queue = ?1 AND state = 0 AND lane = ?3 AND bucket > ?2
ORDER BY bucket LIMIT 1

-- name: due_in_lane
-- BARE_COLUMNS
FROM job
WHERE queue = ?1 AND state = 0 AND lane = ?2 AND bucket = ?3
    AND (due_at, second, id) > (?4, ?5, ?6) AND due_at <= ?7
ORDER BY due_at, second, id LIMIT ?8

-- name: next_bucket_of_heads
SELECT bucket FROM head
WHERE queue = ?1 AND kind = ?3 AND shut = 0 AND bucket > ?2
ORDER BY bucket LIMIT 1

-- name: heads
-- By turns, which are all the same where keys take none. Each comes with its turn, and with the one
-- behind it, who may not be due.
-- BARE_COLUMNS, head.id, turn, next.id, next.bucket + next.second, next.due_at
FROM head CROSS JOIN job ON job.id = head.job
LEFT JOIN job AS next ON next.id = (
    SELECT id FROM job AS behind
    WHERE queue = ?1 AND state = 0 AND lane = job.lane AND bucket = ?3
        AND (due_at, second, id) > (head.due_at, head.second, head.job)
    ORDER BY due_at, second, id LIMIT 1)
WHERE head.queue = ?1 AND kind = ?2 AND shut = 0 AND head.bucket = ?3 AND head.due_at <= ?4
ORDER BY turn, head.due_at, head.second, head.job

-- name: jobs
-- COLUMNS
FROM job WHERE id IN (SELECT value FROM json_each(?))

-- name: start_alike
UPDATE job SET state = 1, token = ?1, session = ?2, until = ?3, started_at = ?4,
    attempt = attempt + 1, revision = revision + 1, progress = 0.0, bare = 0
WHERE id IN (SELECT value FROM json_each(?5))

-- name: start_each
WITH given (job, token, session, until, now) AS (VALUES (?, ?, ?, ?, ?))
UPDATE job SET state = 1, token = given.token, session = given.session, until = given.until,
    started_at = now, attempt = attempt + 1, revision = revision + 1, progress = 0.0, bare = 0
FROM given WHERE id = given.job

-- name: standing
-- The last to come goes first: it is the most likely to be still there.
SELECT token, session, visibility, ear FROM standing JOIN session ON session.id = session
WHERE queue = ?1 AND expires_at > ?2
ORDER BY since DESC

-- name: stand
INSERT INTO standing (queue, since, session, token, visibility, ear) VALUES (?, ?, ?, ?, ?, ?)

-- name: stand_no_more
DELETE FROM standing WHERE session = ?

-- name: stands
SELECT queue FROM standing WHERE session = ? AND token = ?
