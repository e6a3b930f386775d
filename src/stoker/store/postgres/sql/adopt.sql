-- Statements for taking over jobs of another store.

-- name: stand_alone
SELECT stoker.stand_alone()

-- name: settings
SELECT name, settings FROM stoker.queue WHERE name = ANY ($1)

-- name: displace
-- Remove whatever has one of these ids, unique keys or references.
WITH gone AS (
    DELETE FROM stoker.job WHERE id = ANY (ARRAY(
        SELECT unnest($1)
        UNION
        SELECT id FROM stoker.job
        WHERE unique_key = ANY ($2) AND unique_key IS NOT NULL AND state < 3
        UNION
        SELECT id FROM stoker.job WHERE ref = ANY ($3) AND ref IS NOT NULL))
    RETURNING *
), told AS (
    INSERT INTO stoker.news (queue, kind, bucket, parties)
    SELECT queue, lane, bucket, array_agg(coalesce('=' || key, '')) FROM gone
    WHERE state = 0 AND lane <> '!' GROUP BY queue, lane, bucket
), eased AS (
    INSERT INTO stoker.room (queue, parties)
    SELECT queue, array_agg('=' || key) FROM gone WHERE key IS NOT NULL GROUP BY queue
)
INSERT INTO stoker.delta (queue, queued, running, waiting, finished, failed, cancelled, used)
SELECT queue, -count(*) FILTER (WHERE state = 0), -count(*) FILTER (WHERE state = 1),
    -count(*) FILTER (WHERE state = 2), -count(*) FILTER (WHERE state = 3),
    -count(*) FILTER (WHERE state = 4), -count(*) FILTER (WHERE state = 5),
    -coalesce(sum(weight) FILTER (WHERE state = 1 OR waits_for LIKE 'reply:%'), 0)
FROM gone GROUP BY queue

-- name: skip_ids
-- Ids that jobs have brought along are not given out again.
SELECT setval('stoker.job_id', $1) FROM stoker.job_id WHERE last_value < $1 OR NOT is_called
