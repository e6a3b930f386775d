-- Settings and counts of queues.

-- Add what transactions have left in `delta` to the counts. One does it at a time.
CREATE OR REPLACE FUNCTION stoker.fold() RETURNS void
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock('stoker.delta'::regclass::oid::integer, 0) THEN
        RETURN;
    END IF;
    WITH taken AS (
        DELETE FROM stoker.delta WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM stoker.delta LIMIT 50000 FOR UPDATE SKIP LOCKED))
        RETURNING *
    )
    INSERT INTO stoker.queue AS kept
        (name, queued, running, waiting, finished, failed, cancelled, used)
    SELECT queue, sum(queued), sum(running), sum(waiting), sum(finished), sum(failed),
        sum(cancelled), sum(used)
    FROM taken GROUP BY queue ORDER BY queue
    ON CONFLICT (name) DO UPDATE SET
        queued = kept.queued + excluded.queued,
        running = kept.running + excluded.running,
        waiting = kept.waiting + excluded.waiting,
        finished = kept.finished + excluded.finished,
        failed = kept.failed + excluded.failed,
        cancelled = kept.cancelled + excluded.cancelled,
        used = kept.used + excluded.used;
END $$;

-- Forget what nobody needs: empty queues without settings, old notes and locks, and sessions that
-- retired a while ago and hold nothing.
CREATE OR REPLACE FUNCTION stoker.tidy(given bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    now bigint := stoker.moment(given);
BEGIN
    PERFORM stoker.fold();
    DELETE FROM stoker.queue WHERE settings = '{}' AND used = 0
        AND queued = 0 AND running = 0 AND waiting = 0
        AND finished = 0 AND failed = 0 AND cancelled = 0
        AND NOT EXISTS (SELECT FROM stoker.delta WHERE delta.queue = queue.name);
    DELETE FROM stoker.note WHERE until <= now;
    DELETE FROM stoker.lock WHERE until <= now;
    DELETE FROM stoker.session WHERE retired_at <= now - 60000000
        AND NOT EXISTS (SELECT FROM stoker.job WHERE state = 1 AND job.session = session.id);
END $$;

-- New settings. If order or lanes have changed, the queued jobs are placed anew.
CREATE OR REPLACE FUNCTION stoker.configure(
    line text, told text, pausing boolean, limits boolean, by_time boolean
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
    before stoker.queue;
BEGIN
    INSERT INTO stoker.queue (name) VALUES (line) ON CONFLICT DO NOTHING;
    SELECT * INTO before FROM stoker.queue WHERE name = line FOR UPDATE;
    UPDATE stoker.queue SET settings = told, paused = pausing, limited = limits,
        time_first = by_time WHERE name = line;
    IF before.limited = limits AND before.time_first = by_time THEN
        UPDATE stoker.head SET shut = false WHERE queue = line AND shut;
        RETURN;
    END IF;
    PERFORM stoker.seize(line);
    UPDATE stoker.job SET
        bucket = CASE WHEN by_time THEN 0 ELSE bucket + second END,
        second = CASE WHEN by_time THEN bucket + second ELSE 0 END,
        lane = CASE WHEN limits THEN stoker.lane_of(key, weight) END
    WHERE id = ANY (ARRAY(
        SELECT id FROM stoker.job WHERE queue = line AND state = 0 AND lane IS NULL
        UNION ALL
        SELECT id FROM stoker.job WHERE queue = line AND state = 0 AND lane IS NOT NULL))
        AND state = 0 AND (before.time_first <> by_time OR key IS NOT NULL OR weight = 0);
    DELETE FROM stoker.head WHERE queue = line;
    DELETE FROM stoker.news WHERE queue = line;
    INSERT INTO stoker.news (queue, lane, bucket)
    SELECT DISTINCT queue, lane, bucket FROM stoker.job
    WHERE queue = line AND state = 0 AND lane IS NOT NULL AND lane <> '!';
END $$;

-- The first due time after a moment in each of these queues' buckets and lanes.
CREATE OR REPLACE FUNCTION stoker.next_due(
    queues text[], after bigint, mark_queues text[], mark_buckets bigint[]
) RETURNS bigint
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off AS $$
DECLARE
    line text;
    marked bigint[];
    rung bigint;
    soonest bigint;
BEGIN
    FOREACH line IN ARRAY queues LOOP
        marked := ARRAY(SELECT bucket FROM unnest(mark_queues, mark_buckets) AS mark (queue, bucket)
            WHERE mark.queue = line);
        rung := stoker.next_bucket(line, -9223372036854775808, marked);
        WHILE rung IS NOT NULL LOOP
            soonest := least(soonest, (SELECT due_at FROM stoker.job
                WHERE queue = line AND state = 0 AND lane IS NULL AND bucket = rung
                    AND due_at > after
                ORDER BY due_at LIMIT 1));
            rung := stoker.next_bucket(line, rung, marked);
        END LOOP;
    END LOOP;
    RETURN least(soonest,
        (SELECT min(due_at) FROM stoker.head
            WHERE queue = ANY (queues) AND NOT shut AND due_at > after),
        (SELECT min(due_at) FROM stoker.job
            WHERE queue = ANY (queues) AND state = 0 AND lane = '!' AND due_at > after),
        (SELECT min(due_at) FROM stoker.news CROSS JOIN LATERAL (
            SELECT due_at FROM stoker.job
            WHERE queue = news.queue AND state = 0 AND lane = news.lane
                AND bucket = news.bucket AND due_at > after
            ORDER BY due_at LIMIT 1) AS front
            WHERE news.queue = ANY (queues)));
END $$;
