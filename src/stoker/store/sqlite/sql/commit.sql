-- Statements of the committer: guards, and what Changes do to rows.

-- name: take_ids
UPDATE counter SET value = value + ? WHERE name = 'job' RETURNING value

-- name: skip_ids
UPDATE counter SET value = max(value, ?) WHERE name = 'job'

-- name: guard
SELECT revision, token FROM job WHERE id = ?

-- name: holder_unique
SELECT id FROM job WHERE unique_key = ? AND unique_key IS NOT NULL AND state < 3

-- name: holder_ref
SELECT id FROM job WHERE ref = ? AND ref IS NOT NULL

-- name: put_body
INSERT INTO body (job, content) VALUES (?, ?) ON CONFLICT DO UPDATE SET content = excluded.content

-- name: drop_body
DELETE FROM body WHERE job = ?

-- name: drop_job
DELETE FROM job WHERE id = ?

-- name: drop_job_guarded
DELETE FROM job WHERE id = ? AND revision = ? AND token IS ?

-- name: tally
UPDATE job SET
    open_children = open_children - 1,
    finished_children = finished_children + (?2 = 3),
    failed_children = failed_children + (?2 = 4),
    cancelled_children = cancelled_children + (?2 = 5),
    revision = revision + 1,
    bare = 0
WHERE id = ?1 RETURNING

-- name: note_revision
SELECT revision FROM note WHERE key = ?1 AND (until IS NULL OR until > ?2)

-- name: put_note
INSERT INTO note (key, value, until, revision) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO UPDATE SET value = ?2, until = ?3, revision = ?4

-- name: drop_note
DELETE FROM note WHERE key = ?
