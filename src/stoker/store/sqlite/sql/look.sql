-- Statements for looking without changing anything, and for sessions, locks and housekeeping.

-- name: get
-- COLUMNS
FROM job WHERE id IN (SELECT value FROM json_each(?))

-- name: leaseholders
-- Sessions that hold leases, one index probe each; NULL (leases without a session) comes apart.
WITH RECURSIVE holder(session) AS (
    SELECT (SELECT min(session) FROM job WHERE state = 1)
    UNION ALL
    SELECT (SELECT min(session) FROM job WHERE state = 1 AND session > holder.session)
    FROM holder WHERE holder.session IS NOT NULL
)
SELECT holder.session,
    EXISTS (SELECT 1 FROM session AS s WHERE s.id = holder.session AND s.expires_at > ?1)
FROM holder WHERE holder.session IS NOT NULL

-- name: held_by
SELECT id FROM job WHERE state = 1 AND session = ?1 ORDER BY id LIMIT ?2

-- name: overdue_of
SELECT id FROM job WHERE state = 1 AND session = ?1 AND until <= ?2 LIMIT ?3

-- name: overdue_unbound
SELECT id FROM job WHERE state = 1 AND session IS NULL AND until <= ?1 LIMIT ?2

-- name: overdue_waits
SELECT id FROM job WHERE state = 2 AND until IS NOT NULL AND until <= ?1 LIMIT ?2

-- name: childless
SELECT id FROM job WHERE waits_for = 'children' AND open_children = 0 ORDER BY id LIMIT ?1

-- name: held_in_vain
-- One index probe for each parent that has held children, however many it has.
WITH RECURSIVE family(parent_id) AS (
    SELECT (SELECT min(parent_id) FROM job WHERE state = 2 AND waits_for = 'parent')
    UNION ALL
    SELECT (SELECT min(parent_id) FROM job
            WHERE state = 2 AND waits_for = 'parent' AND parent_id > family.parent_id)
    FROM family WHERE family.parent_id IS NOT NULL
)
SELECT child.id
FROM family
LEFT JOIN job AS parent ON parent.id = family.parent_id
JOIN job AS child ON child.state = 2 AND child.waits_for = 'parent'
    AND child.parent_id = family.parent_id
WHERE parent.id IS NULL OR parent.state > 2 OR parent.waits_for = 'children'
LIMIT ?1

-- name: forgettable
SELECT id FROM job WHERE state > 2 AND until IS NOT NULL AND until <= ?1 LIMIT ?2

-- name: survey
SELECT id, name, settings, queued, running, waiting, finished, failed, cancelled, used, laned
FROM queue ORDER BY name

-- name: survey_some
SELECT id, name, settings, queued, running, waiting, finished, failed, cancelled, used, laned
FROM queue WHERE name IN (SELECT value FROM json_each(?)) ORDER BY name

-- name: names
SELECT name FROM queue WHERE queued > 0 AND name GLOB ? ORDER BY name

-- name: buckets
-- The buckets of a queue, from one on, in which jobs without a lane stand: one index probe each.
WITH RECURSIVE rung(bucket) AS (
    SELECT (SELECT min(bucket) FROM job
            WHERE queue = ?1 AND state = 0 AND lane IS NULL AND bucket >= ?2)
    UNION ALL
    SELECT (SELECT min(bucket) FROM job
            WHERE queue = ?1 AND state = 0 AND lane IS NULL AND bucket > rung.bucket)
    FROM rung WHERE rung.bucket IS NOT NULL
)
SELECT bucket FROM rung WHERE bucket IS NOT NULL

-- name: in_bucket
SELECT bucket, due_at, second, id FROM job
WHERE queue = ?1 AND state = 0 AND lane IS NULL AND bucket = ?2 AND due_at <= ?3
    AND (due_at, second, id) > (?4, ?5, ?6)
ORDER BY due_at, second, id LIMIT ?7

-- name: in_lanes
SELECT bucket, due_at, second, id FROM job
WHERE queue = ?1 AND state = 0 AND lane IS NOT NULL AND due_at <= ?2
    AND (bucket, due_at, second, id) > (?3, ?4, ?5, ?6)
ORDER BY bucket, due_at, second, id LIMIT ?7

-- name: aged_in_line
-- Jobs in lanes and those beside them are in indexes of their own.
SELECT id FROM (
    SELECT id, due_at, (bucket + second) * ?6 + due_at AS aged FROM job
    WHERE queue = ?1 AND state = 0 AND lane IS NULL AND due_at <= ?2
    UNION ALL
    SELECT id, due_at, (bucket + second) * ?6 + due_at FROM job
    WHERE queue = ?1 AND state = 0 AND lane IS NOT NULL AND due_at <= ?2)
WHERE ?5 = 0 OR (aged, due_at, id) > (?3 * ?6 + ?4, ?4, ?5)
ORDER BY aged, due_at, id LIMIT ?7

-- name: next_due
-- The first moment after now at which a job falls due, in any bucket of a queue or at the head of a
-- lane, or at which a rate lets somebody in.
WITH RECURSIVE rung(bucket) AS (
    SELECT (SELECT min(bucket) FROM job WHERE queue = ?1 AND state = 0 AND lane IS NULL)
    UNION ALL
    SELECT (SELECT min(bucket) FROM job
            WHERE queue = ?1 AND state = 0 AND lane IS NULL AND bucket > rung.bucket)
    FROM rung WHERE rung.bucket IS NOT NULL
)
SELECT min(moment) FROM (
    SELECT (SELECT min(due_at) FROM job WHERE queue = ?1 AND state = 0 AND lane IS NULL
            AND bucket = rung.bucket AND due_at > ?2) AS moment
    FROM rung
    UNION ALL
    SELECT (SELECT min(wakes_at) FROM head WHERE queue = ?1 AND wakes_at > ?2)
    UNION ALL
    SELECT (SELECT opens_at FROM queue WHERE id = ?1 AND opens_at > ?2)
)

-- name: flows
SELECT meter, state FROM flow
WHERE queue = (SELECT id FROM queue WHERE name = ?1)
    AND meter IN (SELECT value FROM json_each(?2))

-- name: notes
SELECT key, value, until, revision FROM note
WHERE key IN (SELECT value FROM json_each(?1)) AND (until IS NULL OR until > ?2)

-- name: all_notes
SELECT key, value, until, revision FROM note WHERE until IS NULL OR until > ?1

-- name: seal
SELECT value FROM note WHERE key = ?

-- name: sessions
SELECT id, name, info, started_at, expires_at FROM session ORDER BY id

-- name: dead_session
SELECT id FROM session WHERE expires_at <= ? LIMIT 1

-- name: enrol
INSERT INTO session (id, name, info, started_at, expires_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET name = excluded.name, info = excluded.info,
    started_at = excluded.started_at, expires_at = excluded.expires_at

-- name: beat
UPDATE session SET expires_at = ?3 WHERE id = ?1 AND expires_at > ?2 RETURNING id

-- name: cancelled
SELECT id FROM job WHERE state = 1 AND cancel_requested = 1 AND session = ? ORDER BY id

-- name: retire
DELETE FROM session WHERE id = ?

-- name: hold
INSERT INTO lock (name, owner, until) VALUES (?1, ?2, ?4)
ON CONFLICT DO UPDATE SET owner = excluded.owner, until = excluded.until
    WHERE lock.owner = ?2 OR lock.until <= ?3
RETURNING name

-- name: drop_empty_queues
DELETE FROM queue WHERE settings = '{}'
    AND queued + running + waiting + finished + failed + cancelled = 0

-- name: drop_old_flows
DELETE FROM flow WHERE until <= ?1 OR queue NOT IN (SELECT id FROM queue)

-- name: drop_old_turns
DELETE FROM served WHERE queue NOT IN (SELECT id FROM queue)

-- name: drop_old_notes
DELETE FROM note WHERE until <= ?

-- name: drop_old_locks
DELETE FROM lock WHERE until <= ?
