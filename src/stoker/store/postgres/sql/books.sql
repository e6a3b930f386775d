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

-- Forget what nobody needs: runs of empty queues, empty queues without settings, rates that are as if
-- nothing had happened, turns of those that are not before others, old notes and locks, and sessions that
-- retired a while ago and hold nothing.
CREATE OR REPLACE FUNCTION stoker.tidy(given bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    now bigint := stoker.moment(given);
BEGIN
    PERFORM stoker.fold();
    DELETE FROM stoker.run USING stoker.queue WHERE queue.name = run.queue AND queued = 0
        AND NOT EXISTS (SELECT FROM stoker.delta WHERE delta.queue = queue.name);
    DELETE FROM stoker.queue WHERE settings = '{}' AND used = 0
        AND queued = 0 AND running = 0 AND waiting = 0
        AND finished = 0 AND failed = 0 AND cancelled = 0
        AND NOT EXISTS (SELECT FROM stoker.delta WHERE delta.queue = queue.name);
    DELETE FROM stoker.flow WHERE until <= now;
    DELETE FROM stoker.turn USING stoker.turn AS clock WHERE clock.queue = turn.queue
        AND clock.party = '!' AND turn.party <> '!' AND turn.reached <= clock.reached;
    DELETE FROM stoker.note WHERE until <= now;
    DELETE FROM stoker.lock WHERE until <= now;
    DELETE FROM stoker.session WHERE retired_at <= now - 60000000
        AND NOT EXISTS (SELECT FROM stoker.job WHERE state = 1 AND job.session = session.id);
END $$;

-- New settings, with what statements have to know of them. If order or lanes have changed, the queued
-- jobs are placed anew; in any case lanes are looked at again.
CREATE OR REPLACE FUNCTION stoker.configure(
    line text, told text, pausing boolean, limits boolean, by_time boolean, tasks text[],
    taking_turns boolean, step bigint, outer_queue text, counting boolean, rating boolean,
    by_lanes boolean, whole_units bigint, one bigint, whole bigint, period bigint, units bigint,
    easing boolean
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
    before stoker.queue;
    lanes text[] := '{""}' || ARRAY(SELECT '~' || task FROM unnest(tasks) AS task);
BEGIN
    INSERT INTO stoker.queue (name) VALUES (line) ON CONFLICT DO NOTHING;
    SELECT * INTO before FROM stoker.queue WHERE name = line FOR UPDATE;
    UPDATE stoker.queue SET settings = told, paused = pausing, limited = limits,
        time_first = by_time, kinds = lanes, fair = taking_turns, ageing = step,
        within = outer_queue, counts_keys = counting, rates_keys = rating, opens_at = NULL,
        lanewise = by_lanes, own_units = whole_units, fill_step = one, fill_whole = whole,
        fill_period = period, key_units = units, eases = easing, buckets = '{}'
    WHERE name = line;
    IF (before.limited, before.time_first, before.kinds, before.counts_keys)
            = (limits, by_time, lanes, counting) THEN
        IF (before.fair, before.ageing, before.within)
                IS DISTINCT FROM (taking_turns, step, outer_queue) THEN
            PERFORM stoker.seize(line);
        END IF;
        INSERT INTO stoker.news (queue, kind, bucket, parties)
        SELECT queue, kind, bucket, array_agg(party) FROM stoker.head WHERE queue = line
        GROUP BY queue, kind, bucket;
        PERFORM stoker.drop_heads(line);
    ELSE
        PERFORM stoker.seize(line);
        PERFORM stoker.place_anew(line, limits, by_time, lanes, counting);
    END IF;
END $$;

-- Give the jobs of a queue the places that they have by its new settings: all that are queued, and
-- those that run, for the sake of limits of tasks and keys.
CREATE OR REPLACE FUNCTION stoker.place_anew(
    line text, limits boolean, by_time boolean, lanes text[], counting boolean
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE stoker.job SET bucket = new.bucket, second = new.second, lane = new.lane,
        counted = new.counted, joined = false
    FROM (
        SELECT id, CASE WHEN by_time THEN 0 ELSE bucket + second END AS bucket,
            CASE WHEN by_time THEN bucket + second ELSE 0 END AS second,
            CASE WHEN limits THEN stoker.lane_of(key, name, weight, lanes) END AS lane,
            key IS NOT NULL AND counting AS counted
        FROM stoker.job WHERE id = ANY (ARRAY(
            SELECT id FROM stoker.job WHERE queue = line AND state = 0 AND lane IS NULL AND NOT joined
            UNION ALL
            SELECT id FROM stoker.run JOIN stoker.job ON id BETWEEN first AND last
            WHERE run.queue = line AND job.queue = line AND joined
            UNION ALL
            SELECT id FROM stoker.job WHERE queue = line AND state = 0 AND lane = '!'
            UNION ALL
            SELECT id FROM stoker.job WHERE queue = line AND state = 0 AND lane <> '!'
            UNION ALL
            SELECT id FROM stoker.job WHERE queue = line AND state = 1
            UNION ALL
            SELECT id FROM stoker.job WHERE queue = line AND state = 2
                AND waits_for >= 'reply:' AND waits_for < 'reply;'))
    ) AS new
    WHERE job.id = new.id AND job.state < 3
        AND (job.bucket, job.second, job.lane, job.counted, job.joined)
            IS DISTINCT FROM (new.bucket, new.second, new.lane, new.counted, false);
    DELETE FROM stoker.run WHERE queue = line;
    PERFORM stoker.drop_heads(line);
    DELETE FROM stoker.news WHERE queue = line;
    INSERT INTO stoker.news (queue, kind, bucket, parties)
    SELECT queue, lane, bucket, array_agg(DISTINCT coalesce('=' || key, '')) FROM stoker.job
    WHERE queue = line AND state = 0 AND lane <> '!' GROUP BY queue, lane, bucket;
END $$;

-- Let all heads of a queue be looked for anew. How far their parties have been served is kept.
CREATE OR REPLACE FUNCTION stoker.drop_heads(line text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO stoker.turn (queue, party, reached)
    SELECT queue, party, max(turn) FROM stoker.head WHERE queue = line AND turn > 0
    GROUP BY queue, party
    ON CONFLICT (queue, party) DO UPDATE SET reached = excluded.reached;
    DELETE FROM stoker.head WHERE queue = line;
END $$;

-- The first moment after another at which something is due in one of these queues' buckets and lanes,
-- or a rate lets somebody in.
CREATE OR REPLACE FUNCTION stoker.next_due(
    queues text[], after bigint, mark_queues text[], mark_buckets bigint[]
) RETURNS bigint
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_sort = off AS $$
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
                WHERE queue = line AND state = 0 AND lane IS NULL AND NOT joined AND bucket = rung
                    AND due_at > after
                ORDER BY due_at LIMIT 1),
                (SELECT due_at FROM stoker.run WHERE queue = line AND bucket = rung AND due_at > after
                    AND EXISTS (SELECT FROM stoker.job WHERE id BETWEEN first AND last
                        AND joined AND job.queue = line AND job.due_at = run.due_at)
                ORDER BY due_at LIMIT 1));
            rung := stoker.next_bucket(line, rung, marked);
        END LOOP;
    END LOOP;
    RETURN least(soonest,
        (SELECT min(opens_at) FROM stoker.queue WHERE name = ANY (queues) AND opens_at > after),
        (SELECT min(latest_due) FROM stoker.queue WHERE name = ANY (queues) AND latest_due > after),
        (SELECT min(shut_until) FROM unnest(queues) AS each CROSS JOIN LATERAL (
            SELECT shut_until FROM stoker.head WHERE queue = each AND shut_until > after
                AND shut_until < 9223372036854775807
            ORDER BY shut_until LIMIT 1) AS lane),
        (SELECT min(due_at) FROM stoker.job
            WHERE queue = ANY (queues) AND state = 0 AND lane = '!' AND due_at > after),
        stoker.next_due_unheard(queues, after));
END $$;

-- The same in lanes of which there is news. Where keys are limited all lanes are one line.
CREATE OR REPLACE FUNCTION stoker.next_due_unheard(queues text[], after bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN least(
        (SELECT min(due_at) FROM (
                SELECT DISTINCT queue, bucket FROM stoker.news
                JOIN stoker.queue AS known ON known.name = queue AND counts_keys
                WHERE queue = ANY (queues) AND kind = '') AS word
            CROSS JOIN LATERAL (
                SELECT due_at FROM stoker.job
                WHERE queue = word.queue AND state = 0 AND lane = '' AND counted
                    AND bucket = word.bucket AND due_at > after
                ORDER BY due_at LIMIT 1) AS front),
        (SELECT min(due_at) FROM (
                SELECT DISTINCT queue, kind, bucket, party FROM stoker.news
                CROSS JOIN unnest(parties) AS party
                JOIN stoker.queue AS known ON known.name = queue
                WHERE queue = ANY (queues) AND NOT (kind = '' AND counts_keys)) AS word
            CROSS JOIN LATERAL (
                SELECT due_at FROM stoker.job
                WHERE queue = word.queue AND state = 0 AND lane = word.kind AND lane <> '!'
                    AND coalesce('=' || key, '') = word.party AND bucket = word.bucket
                    AND due_at > after
                ORDER BY due_at LIMIT 1) AS front));
END $$;
