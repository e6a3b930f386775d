-- Statements that ask how the server and the tables are.

-- name: settings
SELECT current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',
    current_setting('synchronous_commit') <> 'off', current_setting('autovacuum') = 'on'

-- name: size
SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
WHERE relnamespace = to_regnamespace(quote_ident($1)) AND relkind = 'r'

-- name: unbalanced
-- Queues whose counts are not those of their jobs, the first few by name.
WITH kept AS (
    SELECT name, sum(queued) AS queued, sum(running) AS running, sum(waiting) AS waiting,
        sum(finished) AS finished, sum(failed) AS failed, sum(cancelled) AS cancelled,
        sum(used) AS used
    FROM (
        SELECT name, queued, running, waiting, finished, failed, cancelled, used
        FROM stoker.queue
        UNION ALL
        SELECT queue, queued, running, waiting, finished, failed, cancelled, used
        FROM stoker.delta
    ) AS book GROUP BY name
), there AS (
    SELECT queue, count(*) FILTER (WHERE state = 0) AS queued,
        count(*) FILTER (WHERE state = 1) AS running, count(*) FILTER (WHERE state = 2) AS waiting,
        count(*) FILTER (WHERE state = 3) AS finished, count(*) FILTER (WHERE state = 4) AS failed,
        count(*) FILTER (WHERE state = 5) AS cancelled,
        coalesce(sum(weight) FILTER (WHERE state = 1 OR waits_for LIKE 'reply:%'), 0) AS used
    FROM stoker.job GROUP BY queue
)
SELECT coalesce(name, queue) FROM kept FULL JOIN there ON queue = name
WHERE (coalesce(kept.queued, 0), coalesce(kept.running, 0), coalesce(kept.waiting, 0),
        coalesce(kept.finished, 0), coalesce(kept.failed, 0), coalesce(kept.cancelled, 0),
        coalesce(kept.used, 0))
    <> (coalesce(there.queued, 0), coalesce(there.running, 0), coalesce(there.waiting, 0),
        coalesce(there.finished, 0), coalesce(there.failed, 0), coalesce(there.cancelled, 0),
        coalesce(there.used, 0))
ORDER BY 1 LIMIT $1

-- name: oldest
-- The transaction that has kept the oldest rows from being removed, and for how many seconds.
SELECT pid, extract(epoch FROM clock_timestamp() - xact_start)::bigint FROM pg_stat_activity
WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND datname = current_database()
ORDER BY xact_start LIMIT 1

-- name: dead
SELECT n_live_tup, n_dead_tup FROM pg_stat_user_tables
WHERE schemaname = $1 AND relname = 'job'

-- name: notices
SELECT pg_notification_queue_usage()

-- name: writable
SELECT NOT pg_is_in_recovery() AND has_table_privilege('stoker.job', 'INSERT, UPDATE, DELETE')
