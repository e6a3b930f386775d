-- Statements for looking without changing anything, and for sessions, locks and housekeeping.

-- name: moment
SELECT stoker.moment($1)

-- name: newest
SELECT last_value FROM stoker.job_id

-- name: notify
SELECT pg_notify($1, $2)

-- name: announce
SELECT stoker.announce($1, $2, $3, $4, $5)

-- name: get
-- COLUMNS
FROM stoker.job WHERE id = ANY ($1)

-- name: lost
SELECT stoker.lost($1, $2)

-- name: adrift
SELECT stoker.adrift($1)

-- name: forgettable
SELECT stoker.forgettable($1, $2)

-- name: troubled
SELECT stoker.troubled(stoker.moment($1))

-- name: survey
-- Queues with their counts: those that were folded, and what happened since.
SELECT name, max(settings), sum(queued)::bigint, sum(running)::bigint, sum(waiting)::bigint,
    sum(finished)::bigint, sum(failed)::bigint, sum(cancelled)::bigint, sum(used)::bigint
FROM (
    SELECT name, settings, queued, running, waiting, finished, failed, cancelled, used
    FROM stoker.queue
    UNION ALL
    SELECT queue, NULL, queued, running, waiting, finished, failed, cancelled, used
    FROM stoker.delta
) AS book
WHERE $1::text[] IS NULL OR name = ANY ($1)
GROUP BY name ORDER BY name

-- name: queued
SELECT name FROM (
    SELECT name, queued FROM stoker.queue UNION ALL SELECT queue, queued FROM stoker.delta
) AS book
GROUP BY name HAVING sum(queued) > 0 ORDER BY name

-- name: order
SELECT time_first, ageing FROM stoker.queue WHERE name = $1

-- name: in_line
-- The due jobs of a queue behind a place, in order: those without a lane bucket by bucket, those that
-- need no room, those who stand in runs, and of those in lanes all, since there may be many lanes.
WITH RECURSIVE rung (bucket) AS (
    SELECT min(bucket) FROM (
        (SELECT bucket FROM stoker.job
        WHERE queue = $1 AND state = 0 AND lane IS NULL AND NOT joined AND bucket >= $3
        ORDER BY bucket LIMIT 1)
        UNION ALL SELECT min(bucket) FROM stoker.run WHERE queue = $1 AND bucket >= $3
    ) AS first
    UNION ALL
    SELECT (SELECT min(bucket) FROM (
        (SELECT bucket FROM stoker.job
        WHERE queue = $1 AND state = 0 AND lane IS NULL AND NOT joined AND bucket > rung.bucket
        ORDER BY bucket LIMIT 1)
        UNION ALL SELECT min(bucket) FROM stoker.run WHERE queue = $1 AND bucket > rung.bucket
    ) AS next)
    FROM rung WHERE rung.bucket IS NOT NULL
), place AS (
    SELECT apart.* FROM rung CROSS JOIN LATERAL (
        SELECT bucket, due_at, second, id FROM stoker.job
        WHERE queue = $1 AND state = 0 AND lane IS NULL AND NOT joined AND bucket = rung.bucket
            AND due_at <= $2 AND (bucket, due_at, second, id) > ($3, $4, $5, $6)
        ORDER BY due_at, second, id LIMIT $7) AS apart
    UNION ALL
    SELECT member.* FROM rung CROSS JOIN LATERAL (
        SELECT bucket, due_at, second, id
        FROM stoker.in_runs($1, rung.bucket, $2, -9223372036854775808, 0, 0)
        WHERE (bucket, due_at, second, id) > ($3, $4, $5, $6)
        ORDER BY due_at, second, id LIMIT $7) AS member
    UNION ALL
    (SELECT bucket, due_at, second, id FROM stoker.job
    WHERE queue = $1 AND state = 0 AND lane = '!'
        AND due_at <= $2 AND (bucket, due_at, second, id) > ($3, $4, $5, $6)
    ORDER BY bucket, due_at, second, id LIMIT $7)
    UNION ALL
    (SELECT bucket, due_at, second, id FROM stoker.job
    WHERE queue = $1 AND state = 0 AND lane <> '!'
        AND due_at <= $2 AND (bucket, due_at, second, id) > ($3, $4, $5, $6)
    ORDER BY bucket, due_at, second, id LIMIT $7)
)
-- COLUMNS
FROM stoker.job WHERE id IN (SELECT id FROM place ORDER BY bucket, due_at, second, id LIMIT $7)
ORDER BY bucket, due_at, second, id

-- name: aged_in_line
-- The same where jobs age: nobody's place can be told by an index.
-- COLUMNS
FROM stoker.job
WHERE queue = $1 AND state = 0 AND due_at <= $2 AND ($6 = 0 OR
    (stoker.aged(bucket + second, $5, due_at), due_at, id) > (stoker.aged($3, $5, $4), $4, $6))
ORDER BY stoker.aged(bucket + second, $5, due_at), due_at, id LIMIT $7

-- name: next_due
SELECT stoker.next_due($1, $2, $3, $4)

-- name: flows
SELECT meter, state FROM stoker.flow WHERE queue = $1 AND meter = ANY ($2)

-- name: notes
SELECT key, value, until, revision FROM stoker.note
WHERE key = ANY ($1) AND (until IS NULL OR until > $2)

-- name: all_notes
SELECT key, value, until, revision FROM stoker.note WHERE until IS NULL OR until > $1

-- name: sessions
SELECT id, name, info, started_at, expires_at FROM stoker.session
WHERE retired_at IS NULL ORDER BY id

-- name: enrol
INSERT INTO stoker.session (id, name, info, started_at, expires_at)
SELECT $1, $2, $3, now, now + $5 FROM stoker.moment($4) AS now
ON CONFLICT (id) DO UPDATE SET name = excluded.name, info = excluded.info,
    started_at = excluded.started_at, expires_at = excluded.expires_at, retired_at = NULL

-- name: beat
WITH beaten AS (
    UPDATE stoker.session SET expires_at = now + $3 FROM stoker.moment($2) AS now
    WHERE id = $1 AND retired_at IS NULL AND expires_at > now
    RETURNING now
)
SELECT now, ARRAY(SELECT id FROM stoker.job
    WHERE state = 1 AND cancel_requested AND session = $1 ORDER BY id),
    $4::boolean AND stoker.troubled(now)
FROM beaten

-- name: at_work
-- By which number we are known, and on which of these connections something is done, or was just now.
SELECT pg_backend_pid(), ARRAY(
    SELECT pid FROM pg_stat_activity WHERE pid = ANY($1::int[]) AND (
        state_change > clock_timestamp() - make_interval(secs => $2 / 1e6)
        OR (coalesce(state, '') NOT LIKE 'idle%' AND wait_event_type IS DISTINCT FROM 'Client')
    )
)

-- name: retire
WITH over AS (
    UPDATE stoker.session SET retired_at = stoker.moment($2) WHERE id = $1 AND retired_at IS NULL
)
SELECT stoker.stand_no_more($1)

-- name: hold
-- Whoever only finds that it is somebody else's turn has written nothing.
INSERT INTO stoker.lock AS held (name, owner, until)
SELECT $1, $2, CASE WHEN $4 > 0 THEN now + $4 ELSE 0 END FROM stoker.moment($3) AS now
WHERE NOT EXISTS (SELECT FROM stoker.lock WHERE name = $1 AND owner <> $2 AND until > now)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
    WHERE held.owner = $2 OR held.until <= excluded.until - $4
RETURNING name

-- name: fold
SELECT stoker.fold()

-- name: tidy
SELECT stoker.tidy($1)
