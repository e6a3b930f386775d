-- Statements of the long way: reading what changes touch, and writing what they made of it.

-- name: stand_alone
SELECT stoker.stand_alone()

-- name: seal
SELECT value FROM stoker.note WHERE key = $1 AND stoker.sealed()

-- name: heed
SELECT stoker.heed($1 || ARRAY(SELECT queue FROM stoker.job WHERE id = ANY ($2)))

-- name: settings
-- Of these queues, and of those in which these jobs are.
SELECT name, settings FROM stoker.queue
WHERE name = ANY ($1 || ARRAY(SELECT queue FROM stoker.job WHERE id = ANY ($2)))

-- name: jobs
-- FACTS
FROM stoker.job WHERE id = ANY ($1) ORDER BY id FOR UPDATE

-- name: payloads
SELECT id, payload FROM stoker.job WHERE id = ANY ($1)

-- name: holders_unique
SELECT unique_key, id FROM stoker.job
WHERE unique_key = ANY ($1) AND unique_key IS NOT NULL AND state < 3

-- name: holders_ref
SELECT ref, id FROM stoker.job WHERE ref = ANY ($1) AND ref IS NOT NULL

-- name: notes
SELECT key, CASE WHEN until IS NULL OR until > $2 THEN revision ELSE 0 END FROM stoker.note
WHERE key = ANY ($1) ORDER BY key FOR UPDATE

-- name: configure
SELECT stoker.configure($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
    $17, $18)

-- name: eased
SELECT stoker.eased($1)

-- name: delete_jobs
DELETE FROM stoker.job WHERE id = ANY ($1)

-- name: count
INSERT INTO stoker.delta (queue, queued, running, waiting, finished, failed, cancelled, used)
SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)

-- name: tell
INSERT INTO stoker.news (queue, kind, bucket, parties)
SELECT queue, kind, bucket, array_agg(party)
FROM unnest($1, $2, $3, $4) AS word (queue, party, kind, bucket) GROUP BY queue, kind, bucket

-- name: make_room
INSERT INTO stoker.room (queue, parties)
SELECT queue, array_agg(party) FROM unnest($1, $2) AS word (queue, party) GROUP BY queue

-- name: add_note
-- Not instead of one that somebody else has put there meanwhile.
INSERT INTO stoker.note (key, value, until, revision) VALUES ($1, $2, $3, $4)

-- name: write_note
UPDATE stoker.note SET value = $2, until = $3, revision = $4 WHERE key = $1

-- name: drop_note
DELETE FROM stoker.note WHERE key = $1
