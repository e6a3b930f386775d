-- Claiming from queues that have to be walked: the lanes of limited ones, and orders side by side.

-- Keep other claims away from those queues that are limited, and look again at the lanes of which
-- there is news. Gives what is known of each queue; the first row has no name but the moment, which
-- is that after all waiting.
CREATE OR REPLACE FUNCTION stoker.attend(given bigint, queues text[])
RETURNS TABLE (name text, settings text, used bigint)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_hashjoin = off
SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    heard stoker.news[];
BEGIN
    PERFORM stoker.heed(queues);
    PERFORM FROM stoker.queue WHERE queue.name = ANY (queues) AND limited
    ORDER BY queue.name FOR UPDATE;
    -- If a great many wrote while nobody claimed, the next claims hear the rest.
    WITH told AS (
        DELETE FROM stoker.news WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM stoker.news WHERE queue = ANY (queues) LIMIT 10000))
        RETURNING *
    )
    SELECT array_agg(DISTINCT told) INTO heard FROM told;
    IF heard IS NOT NULL THEN
        PERFORM stoker.look_again(heard);
    END IF;
    RETURN QUERY SELECT NULL, NULL, stoker.moment(given);
    RETURN QUERY
    SELECT queue.name, queue.settings, queue.used + coalesce(
        (SELECT sum(used) FROM stoker.delta WHERE delta.queue = queue.name), 0)::bigint
    FROM stoker.queue WHERE queue.name = ANY (queues);
END $$;

-- Find the heads of lanes anew, and open what may have room.
CREATE OR REPLACE FUNCTION stoker.look_again(heard stoker.news[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
BEGIN
    WITH foremost AS MATERIALIZED (
        SELECT spot.queue, spot.lane, spot.bucket, front.due_at, front.second, front.id
        FROM unnest(heard) AS spot
        LEFT JOIN LATERAL (
            SELECT due_at, second, id FROM stoker.job
            WHERE queue = spot.queue AND state = 0 AND lane = spot.lane AND bucket = spot.bucket
            ORDER BY due_at, second, id LIMIT 1
        ) AS front ON true
        WHERE spot.bucket IS NOT NULL
    ), emptied AS (
        DELETE FROM stoker.head USING foremost AS spot WHERE spot.id IS NULL
            AND (head.queue, head.lane, head.bucket) = (spot.queue, spot.lane, spot.bucket)
    )
    INSERT INTO stoker.head (queue, lane, bucket, due_at, second, job)
    SELECT * FROM foremost WHERE id IS NOT NULL
    ON CONFLICT (queue, lane, bucket) DO UPDATE SET due_at = excluded.due_at,
        second = excluded.second, job = excluded.job, shut = false;
    UPDATE stoker.head SET shut = false
    FROM (SELECT DISTINCT queue, lane FROM unnest(heard)) AS spot
    WHERE head.queue = spot.queue AND head.lane = spot.lane AND shut;
END $$;

-- Due jobs of a queue that stand in no lane, in its order: in the buckets behind one, and in each
-- of them behind its mark.
CREATE OR REPLACE FUNCTION stoker.line(
    line text, now bigint, most bigint, behind bigint,
    mark_buckets bigint[], mark_dues bigint[], mark_seconds bigint[], mark_jobs bigint[]
) RETURNS TABLE (id bigint, revision bigint, bucket bigint, due_at bigint, second bigint,
    key text, weight bigint)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    rung bigint := behind;
    mark record;
    found_now bigint;
BEGIN
    WHILE most > 0 LOOP
        rung := stoker.next_bucket(line, rung, mark_buckets);
        EXIT WHEN rung IS NULL;
        SELECT coalesce(max(due), -9223372036854775808) AS due, coalesce(max(second), 0) AS second,
            coalesce(max(job), 0) AS job INTO mark
        FROM unnest(mark_buckets, mark_dues, mark_seconds, mark_jobs)
            AS marked (bucket, due, second, job) WHERE marked.bucket = rung;
        RETURN QUERY
        SELECT id, revision, bucket, due_at, second, key, weight FROM stoker.job
        WHERE queue = line AND state = 0 AND lane IS NULL AND bucket = rung AND due_at <= now
            AND (due_at, second, id) > (mark.due, mark.second, mark.job)
        ORDER BY due_at, second, id LIMIT most;
        GET DIAGNOSTICS found_now = ROW_COUNT;
        most := most - found_now;
    END LOOP;
END $$;

-- The same for the jobs that need no room, behind a place.
CREATE OR REPLACE FUNCTION stoker.free_line(
    line text, now bigint, most bigint, after_bucket bigint, after_due bigint, after_second bigint,
    after_job bigint
) RETURNS TABLE (id bigint, revision bigint, bucket bigint, due_at bigint, second bigint,
    key text, weight bigint)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    rung bigint := after_bucket;
    found_now bigint;
BEGIN
    WHILE most > 0 AND rung IS NOT NULL LOOP
        RETURN QUERY
        SELECT id, revision, bucket, due_at, second, key, weight FROM stoker.job
        WHERE queue = line AND state = 0 AND lane = '!' AND bucket = rung AND due_at <= now
            AND (rung > after_bucket OR (due_at, second, id) > (after_due, after_second, after_job))
        ORDER BY due_at, second, id LIMIT most;
        GET DIAGNOSTICS found_now = ROW_COUNT;
        most := most - found_now;
        rung := (SELECT bucket FROM stoker.job
            WHERE queue = line AND state = 0 AND lane = '!' AND bucket > rung
            ORDER BY bucket LIMIT 1);
    END LOOP;
END $$;

-- Open lanes of a queue in the order of their heads, behind a place, each with its first few due
-- jobs and with what its key holds.
CREATE OR REPLACE FUNCTION stoker.lanes(
    line text, now bigint, most bigint, few bigint, after_bucket bigint, after_due bigint,
    after_second bigint, after_job bigint
) RETURNS TABLE (head bigint, head_due bigint, head_second bigint, used bigint,
    id bigint, revision bigint, bucket bigint, due_at bigint, second bigint, key text,
    weight bigint)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    rung bigint := after_bucket;
    found_now bigint;
BEGIN
    WHILE most > 0 AND rung IS NOT NULL LOOP
        RETURN QUERY
        WITH open AS MATERIALIZED (
            SELECT * FROM stoker.head
            WHERE queue = line AND NOT shut AND bucket = rung AND due_at <= now
                AND (rung > after_bucket
                    OR (due_at, second, job) > (after_due, after_second, after_job))
            ORDER BY due_at, second, job LIMIT most
        )
        SELECT open.job, open.due_at, open.second, stoker.held(line, member.key), member.*
        FROM open CROSS JOIN LATERAL (
            SELECT id, revision, bucket, due_at, second, key, weight FROM stoker.job
            WHERE queue = line AND state = 0 AND lane = open.lane AND bucket = rung
                AND due_at <= now
            ORDER BY due_at, second, id LIMIT few
        ) AS member
        ORDER BY open.due_at, open.second, open.job, member.due_at, member.second, member.id;
        GET DIAGNOSTICS found_now = ROW_COUNT;
        most := most - found_now;
        rung := (SELECT bucket FROM stoker.head WHERE queue = line AND NOT shut AND bucket > rung
            ORDER BY bucket LIMIT 1);
    END LOOP;
END $$;

-- The units of capacity that a key holds.
CREATE OR REPLACE FUNCTION stoker.held(line text, holder text) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    RETURN (SELECT coalesce(sum(weight), 0)::bigint FROM stoker.job
        WHERE queue = line AND key = holder AND key IS NOT NULL
            AND (state = 1 OR state = 2 AND waits_for LIKE 'reply:%'));
END $$;
