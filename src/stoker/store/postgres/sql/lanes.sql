-- Claiming from queues that have to be walked: the lanes of limited ones, and orders side by side.

-- Keep other claims away from those of the queues that are limited, and from what they are within;
-- look again at the lanes of which there is news, wake those whose moment has come, and see who is left
-- in runs. Gives what is known of each queue and those that it is within; the first row has no name but a
-- verdict in `settings` and in `used` the moment, which is that after all waiting.
CREATE OR REPLACE FUNCTION stoker.attend(given bigint, queues text[], holder bigint)
RETURNS TABLE (name text, settings text, used bigint, task_use text, flows text, clock bigint,
    reached bigint, opens_at bigint)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    concerned text[];
    now bigint;
    verdict text;
BEGIN
    PERFORM stoker.heed(queues);
    concerned := queues || ARRAY(SELECT within FROM stoker.queue
        WHERE queue.name = ANY (queues) AND within IS NOT NULL);
    PERFORM FROM stoker.queue WHERE queue.name = ANY (concerned) AND limited
    ORDER BY queue.name FOR UPDATE;
    now := stoker.moment(given);
    verdict := stoker.verdict(queues, holder, now);
    RETURN QUERY SELECT NULL, verdict, now, NULL, NULL, 0::bigint, 0::bigint, 0::bigint;
    IF verdict IN ('sealed', 'dead') THEN
        RETURN;
    END IF;
    PERFORM stoker.listen(queues, now);
    PERFORM stoker.trim_all_runs(queues, now);
    RETURN QUERY
    SELECT known.name, known.settings, stoker.used_within(known.name),
        CASE WHEN cardinality(kinds) > 1 THEN (
            SELECT jsonb_object_agg(kind, (
                SELECT coalesce(sum(weight), 0) FROM stoker.job
                WHERE queue = known.name AND lane = kind AND lane >= '~'
                    AND (state = 1 OR state = 2 AND waits_for LIKE 'reply:%')))
            FROM unnest(kinds) AS kind WHERE kind <> '')::text END,
        (SELECT jsonb_object_agg(meter, state)::text FROM stoker.flow
            WHERE queue = known.name AND (meter = '' OR meter >= '~')),
        coalesce((SELECT reached FROM stoker.turn WHERE queue = known.name AND party = '!'), 0),
        (stoker.turns_of(ARRAY[known.name], ARRAY['']))[1],
        known.opens_at
    FROM stoker.queue AS known WHERE known.name = ANY (concerned);
END $$;

-- The units of capacity that a queue's jobs hold, and those of the queues within it.
CREATE OR REPLACE FUNCTION stoker.used_within(line text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    members text[] := ARRAY(SELECT line
        UNION SELECT name FROM stoker.queue WHERE within = line AND within IS NOT NULL);
BEGIN
    RETURN (SELECT coalesce(sum(used), 0) FROM stoker.queue WHERE name = ANY (members))
        + (SELECT coalesce(sum(used), 0) FROM stoker.delta WHERE queue = ANY (members));
END $$;

-- How many words about lanes a claim hears: most of them are of the same lanes, so that it is better
-- done seldom; but while it is done, other claims wait.
CREATE OR REPLACE FUNCTION stoker.heard_at_once() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 50000 $$;

-- Hear what is new in the lanes of queues. If a great many wrote while nobody claimed, or fell due at
-- once, the next claims hear the rest.
CREATE OR REPLACE FUNCTION stoker.listen(queues text[], now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    heard record;
    latest bigint;
BEGIN
    WITH told AS (
        DELETE FROM stoker.news WHERE ctid = ANY (ARRAY(
            SELECT spot FROM (
                SELECT ctid AS spot, sum(words) OVER (ROWS UNBOUNDED PRECEDING) - words AS before
                FROM stoker.news WHERE queue = ANY (queues) LIMIT stoker.heard_at_once()) AS word
            WHERE before < stoker.heard_at_once()))
        RETURNING *
    )
    SELECT array_agg(queue) AS queues, array_agg(party) AS parties, array_agg(kind) AS kinds,
        array_agg(bucket) AS buckets INTO heard
    FROM (SELECT DISTINCT queue, party, kind, bucket
        FROM told CROSS JOIN unnest(told.parties) AS party) AS word;
    IF heard.queues IS NOT NULL THEN
        latest := stoker.look_again(heard.queues, heard.parties, heard.kinds, heard.buckets,
            stoker.turns_of(heard.queues, heard.parties), now);
        PERFORM stoker.open_lanes(heard.queues, heard.parties, now);
        PERFORM stoker.meet(heard.queues, heard.buckets);
    END IF;
    WITH told AS (
        DELETE FROM stoker.room WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM stoker.room WHERE queue = ANY (queues) LIMIT 1000))
        RETURNING *
    )
    SELECT array_agg(queue) AS queues, array_agg(party) AS parties INTO heard
    FROM told CROSS JOIN unnest(parties) AS party;
    IF heard.queues IS NOT NULL THEN
        PERFORM stoker.open_lanes(heard.queues, heard.parties, now);
    END IF;
    latest := greatest(latest, stoker.wake(queues, now));
    -- Somebody may have looked before they were due, and ask for it now.
    UPDATE stoker.queue SET latest_due = latest
    WHERE name = ANY (queues) AND limited AND latest_due < latest;
END $$;

-- There are lanes in these buckets.
CREATE OR REPLACE FUNCTION stoker.meet(queues text[], met bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE stoker.queue SET buckets = ARRAY(
        SELECT DISTINCT each FROM unnest(queue.buckets || word.buckets) AS each LIMIT 2)
    FROM (SELECT name, array_agg(DISTINCT bucket) AS buckets
        FROM unnest(queues, met) AS lane (name, bucket) GROUP BY name) AS word
    WHERE queue.name = word.name AND cardinality(queue.buckets) < 2
        AND NOT queue.buckets @> word.buckets;
END $$;

-- Open all lanes of parties, but for those in which nothing is due.
CREATE OR REPLACE FUNCTION stoker.open_lanes(queues text[], parties text[], now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- The rows are looked for first, so that nobody begins with all heads there are.
    WITH shut AS MATERIALIZED (
        SELECT DISTINCT lane.spot FROM unnest(queues, parties) AS word (queue, party)
        CROSS JOIN LATERAL (
            SELECT ctid AS spot FROM stoker.head
            WHERE queue = word.queue AND party = word.party AND shut_until IS NOT NULL
                AND shut_until IS DISTINCT FROM CASE WHEN due_at > now THEN due_at END
            OFFSET 0) AS lane
    )
    UPDATE stoker.head SET turn = stoker.level(head.queue, turn),
        shut_until = CASE WHEN due_at > now THEN due_at END
    FROM shut WHERE head.ctid = shut.spot;
END $$;

-- Open the lanes whose moment has come. Gives the latest due time of their heads.
CREATE OR REPLACE FUNCTION stoker.wake(queues text[], now bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    latest bigint;
BEGIN
    WITH woken AS (
        UPDATE stoker.head SET turn = stoker.level(queue, turn), shut_until = NULL
        WHERE ctid = ANY (ARRAY(
            SELECT head.ctid FROM unnest(queues) AS line CROSS JOIN LATERAL (
                SELECT ctid FROM stoker.head WHERE queue = line AND shut_until <= now
                    AND shut_until < 9223372036854775807
                ORDER BY shut_until LIMIT 10000) AS head))
        RETURNING due_at
    )
    SELECT max(due_at) INTO latest FROM woken;
    RETURN latest;
END $$;

-- A turn as heads of open lanes have it: 0 if the clock has passed it.
CREATE OR REPLACE FUNCTION stoker.level(line text, turn bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN CASE WHEN turn > 0 AND turn >= (SELECT reached FROM stoker.turn
        WHERE queue = line AND party = '!') THEN turn ELSE 0 END;
END $$;

-- Find the heads of lanes anew, with the turns of their parties. Gives the latest due time of those
-- that are due.
CREATE OR REPLACE FUNCTION stoker.look_again(
    queues text[], parties text[], lanes text[], buckets bigint[], turns bigint[], now bigint
) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    latest bigint;
BEGIN
    WITH foremost AS MATERIALIZED (
        SELECT spot.queue, spot.party, spot.kind, spot.bucket, spot.turn, front.due_at, front.id,
            CASE WHEN ageing IS NOT NULL THEN stoker.aged(spot.bucket, ageing, front.due_at)
                WHEN time_first THEN front.due_at ELSE spot.bucket END AS major,
            CASE WHEN time_first THEN front.second ELSE front.due_at END AS minor,
            CASE WHEN front.due_at > now THEN front.due_at END AS shut_until,
            head.spot, head.before
        FROM unnest(queues, parties, lanes, buckets, turns)
            AS spot (queue, party, kind, bucket, turn)
        JOIN stoker.queue AS known ON known.name = spot.queue
        LEFT JOIN LATERAL (
            SELECT ctid AS spot, (turn, major, minor, job, shut_until, behind) AS before
            FROM stoker.head
            WHERE queue = spot.queue AND party = spot.party AND kind = spot.kind
                AND bucket = spot.bucket OFFSET 0
        ) AS head ON true
        LEFT JOIN LATERAL (
            SELECT due_at, second, id FROM stoker.job
            WHERE queue = spot.queue AND state = 0 AND lane = spot.kind AND lane <> '!'
                AND coalesce('=' || key, '') = spot.party AND bucket = spot.bucket
            ORDER BY due_at, second, id LIMIT 1
        ) AS front ON true
    ), emptied AS (
        DELETE FROM stoker.head USING foremost AS new
        WHERE head.ctid = new.spot AND new.id IS NULL
    ), headless AS (
        INSERT INTO stoker.turn (queue, party, reached)
        SELECT queue, party, max(turn) FROM foremost
        WHERE spot IS NOT NULL AND id IS NULL AND turn > 0 GROUP BY queue, party
        ON CONFLICT (queue, party) DO UPDATE SET reached = excluded.reached
    ), moved AS (
        UPDATE stoker.head SET turn = new.turn, major = new.major, minor = new.minor,
            job = new.id, due_at = new.due_at, shut_until = new.shut_until, behind = NULL
        FROM foremost AS new WHERE head.ctid = new.spot AND new.id IS NOT NULL
            AND before IS DISTINCT FROM (new.turn, new.major, new.minor, new.id, new.shut_until,
                NULL::bigint[])
    ), fresh AS (
        INSERT INTO stoker.head
            (queue, party, kind, bucket, turn, major, minor, job, due_at, shut_until)
        SELECT queue, party, kind, bucket, turn, major, minor, id, due_at, shut_until
        FROM foremost WHERE spot IS NULL AND id IS NOT NULL
    )
    SELECT max(due_at) INTO latest FROM foremost WHERE due_at <= now;
    RETURN latest;
END $$;

-- How far parties of fair queues have been served, if that is further than others; else 0. Their heads
-- know, and a row of `turn` did when they had none, which may have been long ago.
CREATE OR REPLACE FUNCTION stoker.turns_of(queues text[], parties text[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM stoker.queue WHERE name = ANY (queues) AND fair) THEN
        RETURN array_fill(0::bigint, ARRAY[cardinality(queues)]);
    END IF;
    RETURN ARRAY(
        SELECT coalesce((SELECT served.reached FROM stoker.queue AS known
            JOIN stoker.turn AS clock ON clock.queue = known.name AND clock.party = '!'
            CROSS JOIN LATERAL (SELECT greatest(
                (SELECT reached FROM stoker.turn WHERE queue = spot.queue AND party = spot.party),
                (SELECT max(turn) FROM stoker.head
                    WHERE queue = spot.queue AND party = spot.party)) AS reached) AS served
            WHERE known.name = spot.queue AND known.fair AND served.reached > clock.reached), 0)
        FROM unnest(queues, parties) WITH ORDINALITY AS spot (queue, party, place) ORDER BY place);
END $$;

-- What a claim sees first of each of these queues: the jobs without a lane (no kind), those of
-- weight 0 (kind '!'), and heads of lanes of all kinds, each with some behind it.
CREATE OR REPLACE FUNCTION stoker.sights(
    given bigint, queues text[], most bigint, mark_queues text[], mark_buckets bigint[],
    mark_dues bigint[], mark_seconds bigint[], mark_jobs bigint[]
) RETURNS SETOF stoker.sight
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    now bigint := stoker.moment(given);
    line text;
    lanes text;
    known stoker.queue;
    marks record;
    clock bigint;
BEGIN
    FOREACH line IN ARRAY queues LOOP
        SELECT * INTO known FROM stoker.queue WHERE name = line;
        CONTINUE WHEN known.paused;
        SELECT coalesce(array_agg(bucket), '{}') AS buckets, array_agg(due) AS dues,
            array_agg(second) AS seconds, array_agg(job) AS jobs INTO marks
        FROM unnest(mark_queues, mark_buckets, mark_dues, mark_seconds, mark_jobs)
            AS mark (queue, bucket, due, second, job) WHERE mark.queue = line;
        RETURN QUERY SELECT * FROM stoker.line(line, now, most, -9223372036854775808,
            marks.buckets, marks.dues, marks.seconds, marks.jobs);
        CONTINUE WHEN known.limited IS NOT TRUE;
        RETURN QUERY SELECT * FROM stoker.free_line(line, now, most);
        clock := (SELECT reached FROM stoker.turn
            WHERE queue = line AND party = '!' AND known.fair);
        FOREACH lanes IN ARRAY known.kinds LOOP
            RETURN QUERY SELECT * FROM stoker.heads(line, lanes, now, most, 0, -1, 0, 0, 0);
            IF clock IS NOT NULL THEN
                RETURN QUERY SELECT * FROM stoker.heads(line, lanes, now, most,
                    9223372036854775807, greatest(clock, 1), -9223372036854775808, 0, 0);
            END IF;
        END LOOP;
    END LOOP;
END $$;

-- Due jobs of a queue that stand in no lane, in its order: in the buckets behind one, and in each
-- of them behind its mark.
CREATE OR REPLACE FUNCTION stoker.line(
    line text, now bigint, most bigint, behind bigint,
    mark_buckets bigint[], mark_dues bigint[], mark_seconds bigint[], mark_jobs bigint[]
) RETURNS SETOF stoker.sight
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    step bigint := (SELECT ageing FROM stoker.queue WHERE name = line);
    rung bigint := behind;
    aged stoker.sight[] := '{}';
    left_over bigint := most;
    found_now bigint;
BEGIN
    WHILE left_over > 0 LOOP
        rung := stoker.next_bucket(line, rung, mark_buckets);
        EXIT WHEN rung IS NULL;
        IF step IS NOT NULL THEN
            aged := aged || ARRAY(SELECT each FROM stoker.line_in_bucket(line, now, most, rung,
                mark_buckets, mark_dues, mark_seconds, mark_jobs) AS each);
        ELSE
            RETURN QUERY SELECT * FROM stoker.line_in_bucket(line, now, left_over, rung,
                mark_buckets, mark_dues, mark_seconds, mark_jobs);
            GET DIAGNOSTICS found_now = ROW_COUNT;
            left_over := left_over - found_now;
        END IF;
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(aged)
    ORDER BY stoker.aged(bucket, step, due_at), due_at, id LIMIT most;
END $$;

-- The same in one bucket.
CREATE OR REPLACE FUNCTION stoker.line_in_bucket(
    line text, now bigint, most bigint, rung bigint,
    mark_buckets bigint[], mark_dues bigint[], mark_seconds bigint[], mark_jobs bigint[]
) RETURNS SETOF stoker.sight
LANGUAGE plpgsql STABLE AS $$
DECLARE
    mark record;
BEGIN
    SELECT coalesce(max(due), -9223372036854775808) AS due, coalesce(max(second), 0) AS second,
        coalesce(max(job), 0) AS job INTO mark
    FROM unnest(mark_buckets, mark_dues, mark_seconds, mark_jobs)
        AS marked (bucket, due, second, job) WHERE marked.bucket = rung;
    RETURN QUERY
    SELECT queue, lane, id, revision, bucket, due_at, bucket + second, name, key, weight,
        NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::tid,
        NULL::bigint, NULL
    FROM (
        (SELECT * FROM stoker.job
        WHERE queue = line AND state = 0 AND lane IS NULL AND NOT joined AND bucket = rung
            AND due_at <= now AND (due_at, second, id) > (mark.due, mark.second, mark.job)
        ORDER BY due_at, second, id LIMIT most)
        UNION ALL
        (SELECT * FROM stoker.in_runs(line, rung, now, mark.due, mark.second, mark.job) LIMIT most)
    ) AS waiting
    ORDER BY due_at, second, id LIMIT most;
END $$;

-- The first due jobs of weight 0 in each bucket.
CREATE OR REPLACE FUNCTION stoker.free_line(line text, now bigint, most bigint)
RETURNS SETOF stoker.sight
LANGUAGE plpgsql STABLE AS $$
DECLARE
    rung bigint := -9223372036854775808;
BEGIN
    LOOP
        rung := (SELECT bucket FROM stoker.job
            WHERE queue = line AND state = 0 AND lane = '!' AND bucket > rung
            ORDER BY bucket LIMIT 1);
        EXIT WHEN rung IS NULL;
        RETURN QUERY
        SELECT queue, lane, id, revision, bucket, due_at, bucket + second, name, key, weight,
            NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::tid,
            NULL::bigint, NULL
        FROM stoker.job
        WHERE queue = line AND state = 0 AND lane = '!' AND bucket = rung AND due_at <= now
        ORDER BY due_at, second, id LIMIT most;
    END LOOP;
END $$;

-- Open lanes of one kind in the order of their heads: those behind a place, up to a turn. Each comes
-- with its first jobs, due or not, the more the fewer lanes there are, and with what its key holds and
-- what has started of it, if that counts.
CREATE OR REPLACE FUNCTION stoker.heads(
    line text, lanes text, now bigint, most bigint, last_turn bigint, after_turn bigint,
    after_major bigint, after_minor bigint, after_job bigint
) RETURNS SETOF stoker.sight
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    known stoker.queue;
BEGIN
    SELECT * INTO known FROM stoker.queue WHERE name = line;
    RETURN QUERY
    WITH open AS MATERIALIZED (
        SELECT ctid AS spot, party, head.bucket, turn, major, minor, job, due_at,
            CASE WHEN known.time_first THEN minor ELSE 0 END AS second,
            CASE WHEN known.counts_keys AND party <> '' THEN (
                SELECT coalesce(sum(weight), 0)::bigint FROM stoker.job
                WHERE queue = line AND key = substr(party, 2) AND counted
                    AND (state = 1 OR state = 2 AND waits_for LIKE 'reply:%')) END AS used,
            CASE WHEN known.rates_keys AND party <> '' THEN (
                SELECT state FROM stoker.flow WHERE queue = line AND meter = party) END AS flow
        FROM stoker.head
        WHERE queue = line AND kind = lanes AND shut_until IS NULL AND turn <= last_turn
            AND (turn, major, minor, job) > (after_turn, after_major, after_minor, after_job)
        ORDER BY turn, major, minor, job LIMIT most
    ), few AS MATERIALIZED (
        SELECT 1 + most / greatest(count(*), 1) AS number FROM open
    )
    -- Nothing is sorted here: all joins are nested loops, which keep the order.
    SELECT line, lanes, member.id, member.revision, open.bucket, member.due_at,
        open.bucket + member.second, member.name, member.key, member.weight,
        (SELECT number FROM few), open.turn, open.major, open.minor, open.job, open.spot,
        open.used, open.flow
    FROM open LEFT JOIN LATERAL (
        SELECT id, revision, job.due_at, job.second, name, key, weight FROM stoker.job
        WHERE queue = line AND state = 0 AND lane = lanes AND lane <> '!'
            AND coalesce('=' || key, '') = open.party AND bucket = open.bucket
            AND (job.due_at, job.second, id) >= (open.due_at, open.second, open.job)
        ORDER BY job.due_at, job.second, id LIMIT (SELECT number FROM few)
    ) AS member ON true;
END $$;
