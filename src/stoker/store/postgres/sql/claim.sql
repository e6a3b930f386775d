-- Claiming jobs.

-- The foremost due jobs of queues without limits; of several queues in the order of
-- (rank, due_at, id). Each bucket is searched from its mark on. Or, if jobs were chosen before,
-- those of them with which nobody has meddled since. They come in no order.
--
-- The first row is a heading: id 0, the moment in due_at, and in queue a verdict: "by rank" or
-- "by time" if all is fine and the queue has that order, "dead" if the session is, "kept" if one of
-- the queues has to be walked, "laned" if it can be claimed from `by_lanes`, or "sealed". If it was,
-- the ids are in `others`, in the order in which they were chosen, and in `name` which order that is if
-- they were the foremost of all; where lanes do not matter, only that; or it is "kept" for now. What a
-- claim does to a job is `kernel.rules.start`.
--
-- Marks without a queue are for the jobs past their lanes.
CREATE OR REPLACE FUNCTION stoker.claim(
    given bigint, queues text[], most bigint, lease bigint, holder bigint, visibility bigint,
    mark_queues text[], mark_buckets bigint[], mark_dues bigint[], mark_seconds bigint[],
    mark_jobs bigint[], chosen bigint[] = NULL, revisions bigint[] = NULL, by_lanes boolean = false
) RETURNS SETOF stoker.begun
LANGUAGE plpgsql VOLATILE
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    heading stoker.begun;
    now bigint;
    picked tid[];
    seats stoker.seats;
BEGIN
    PERFORM stoker.heed(queues);
    IF by_lanes THEN
        PERFORM FROM stoker.queue WHERE name = queues[1] FOR UPDATE;
    END IF;
    now := stoker.moment(given);  -- after all waiting
    heading.id := 0;
    heading.due_at := now;
    heading.queue := stoker.verdict(queues, holder, now);
    IF by_lanes AND heading.queue = 'laned' THEN
        seats := stoker.seats(queues[1], given, now, most, mark_queues, mark_buckets, mark_dues,
            mark_seconds, mark_jobs);
        -- Jobs whose end has made room for them may have ended while they were looked for.
        now := coalesce(seats.began, stoker.moment(given));
        heading.due_at := now;
        heading.name := seats.in_line;
        IF seats.picked IS NULL OR seats.ids IS NOT NULL THEN
            chosen := coalesce(seats.ids, '{}');
            revisions := seats.revisions;
            heading.others := array_to_json(chosen);
        END IF;
    END IF;
    IF seats.picked IS NOT NULL THEN
        picked := seats.picked;
    ELSIF chosen IS NOT NULL THEN
        picked := ARRAY(SELECT job.ctid FROM unnest(chosen, revisions) AS wanted (id, revision)
            JOIN stoker.job ON job.id = wanted.id
            WHERE job.state = 0 AND job.revision = wanted.revision
            FOR UPDATE OF job SKIP LOCKED);
    ELSIF heading.queue IN ('by rank', 'by time') THEN
        picked := stoker.pick(now, queues, most, mark_queues, mark_buckets, mark_dues,
            mark_seconds, mark_jobs);
    END IF;
    IF seats.unclear OR by_lanes AND cardinality(picked) < cardinality(chosen) THEN
        heading.queue := 'kept';
        picked := NULL;
    ELSIF seats.ids IS NOT NULL THEN
        PERFORM stoker.leave_seats(queues[1], seats);
    END IF;
    RETURN NEXT heading;
    IF cardinality(picked) > 0 THEN
        IF heading.queue = 'laned' THEN  -- all of them are of that queue, and have the weight of one
            INSERT INTO stoker.delta (queue, queued, running, used) VALUES
                (queues[1], -cardinality(picked), cardinality(picked), 1000 * cardinality(picked));
        ELSE
            INSERT INTO stoker.delta (queue, queued, running, used)
            SELECT queue, -count(*), count(*), sum(weight) FROM stoker.job
            WHERE ctid = ANY (picked) GROUP BY queue;
        END IF;
        RETURN QUERY
        UPDATE stoker.job SET state = 1, token = lease, started_at = now,
            session = CASE WHEN NOT stays THEN holder END,
            until = least(now + timeout, CASE WHEN NOT stays THEN now + visibility END),
            attempt = attempt + 1, revision = revision + 1, progress = 0, joined = false
        WHERE ctid = ANY (picked)
        RETURNING queue, name, payload, format, id, bucket + second, due_at, policy, created_at,
            scheduled_at, weight, key, attempt, revision, until,
            CASE WHEN unique_key IS NULL AND ref IS NULL AND meta IS NULL AND parent_id IS NULL
                AND result IS NULL AND error IS NULL AND reply IS NULL
                AND open_children | finished_children | failed_children | cancelled_children
                    | crashes = 0
                AND NOT cancel_requested AND NOT undecided
            THEN NULL
            ELSE json_build_array(unique_key, ref, meta, parent_id, open_children,
                finished_children, failed_children, cancelled_children, crashes, cancel_requested,
                undecided, encode(result, 'base64'), error, encode(reply, 'base64'))::text END;
    END IF;
END $$;

-- Whether and how these queues can be claimed from.
CREATE OR REPLACE FUNCTION stoker.verdict(queues text[], holder bigint, now bigint) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    walked boolean;
    timed boolean;
    laned boolean;
BEGIN
    IF stoker.sealed() THEN
        RETURN 'sealed';
    ELSIF holder IS NOT NULL AND NOT EXISTS (SELECT FROM stoker.session
            WHERE id = holder AND retired_at IS NULL AND expires_at > now) THEN
        RETURN 'dead';
    END IF;
    SELECT bool_or(limited OR time_first AND cardinality(queues) > 1), bool_or(time_first),
        bool_or(lanewise AND cardinality(queues) = 1)
    INTO walked, timed, laned FROM stoker.queue WHERE name = ANY (queues);
    RETURN CASE WHEN laned THEN 'laned' WHEN walked THEN 'kept' WHEN timed THEN 'by time' ELSE 'by rank' END;
END $$;

-- Lock the foremost due jobs, bucket by bucket.
CREATE OR REPLACE FUNCTION stoker.pick(
    now bigint, queues text[], most bigint, mark_queues text[], mark_buckets bigint[],
    mark_dues bigint[], mark_seconds bigint[], mark_jobs bigint[]
) RETURNS tid[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    lines text[];
    rung bigint := -9223372036854775808;
    dues bigint[];
    seconds bigint[];
    jobs bigint[];
    runs boolean;
    shares record;
    found tid[];
    picked tid[] := '{}';
BEGIN
    lines := ARRAY(SELECT line FROM unnest(queues) AS line
        WHERE NOT EXISTS (SELECT FROM stoker.queue WHERE name = line AND paused));
    WHILE most > 0 LOOP
        SELECT min(stoker.next_bucket(line, rung, ARRAY(
            SELECT bucket FROM unnest(mark_queues, mark_buckets) AS mark (queue, bucket)
            WHERE mark.queue = line))) INTO rung
        FROM unnest(lines) AS line;
        EXIT WHEN rung IS NULL;
        SELECT array_agg(coalesce(mark.due_at, -9223372036854775808) ORDER BY place),
            array_agg(coalesce(mark.second, 0) ORDER BY place),
            array_agg(coalesce(mark.job, 0) ORDER BY place)
        INTO dues, seconds, jobs
        FROM unnest(lines) WITH ORDINALITY AS wanted (line, place)
        LEFT JOIN unnest(mark_queues, mark_buckets, mark_dues, mark_seconds, mark_jobs)
            AS mark (queue, bucket, due_at, second, job)
            ON mark.queue = line AND mark.bucket = rung;
        runs := stoker.trim_runs(lines, rung, now);
        IF runs OR cardinality(lines) > 1 THEN
            SELECT * INTO shares
            FROM stoker.shares(now, rung, most, lines, dues, seconds, jobs, runs);
        ELSE
            SELECT ARRAY[most] AS apart INTO shares;
        END IF;
        found := ARRAY(
            SELECT spot
            FROM unnest(lines, shares.apart, dues, seconds, jobs)
                AS behind (line, share, due, second, job)
            CROSS JOIN LATERAL (
                SELECT job.ctid AS spot FROM stoker.job
                WHERE queue = line AND state = 0 AND lane IS NULL AND NOT joined AND bucket = rung
                    AND due_at <= now
                    AND (due_at, job.second, id) > (behind.due, behind.second, behind.job)
                ORDER BY due_at, job.second, id LIMIT share FOR UPDATE SKIP LOCKED
            ) AS candidate);
        IF runs THEN
            found := found || stoker.pick_from_runs(now, rung, lines, shares.in_runs);
        END IF;
        picked := picked || found;
        most := most - cardinality(found);
    END LOOP;
    RETURN picked;
END $$;

-- Lock so many of those who stand in the runs of each queue. Who they are is said in `in_runs`.
CREATE OR REPLACE FUNCTION stoker.pick_from_runs(
    now bigint, rung bigint, lines text[], shares bigint[]
) RETURNS tid[]
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN ARRAY(
        SELECT candidate.spot FROM unnest(lines, shares) AS wanted (line, share)
        CROSS JOIN LATERAL (
            SELECT member.spot FROM (
                SELECT due_at, min(first) AS first, max(last) AS last FROM stoker.run
                WHERE queue = line AND bucket = rung AND due_at <= now
                GROUP BY due_at ORDER BY due_at) AS run
            CROSS JOIN LATERAL (
                SELECT ctid AS spot FROM stoker.job WHERE id BETWEEN run.first AND run.last
                    AND joined AND queue = line AND bucket = rung AND due_at = run.due_at
                ORDER BY id FOR UPDATE SKIP LOCKED) AS member
            LIMIT share) AS candidate);
END $$;

-- Let the foremost run of each of these queues begin where somebody stands, and those be gone that
-- everybody has left, unless somebody else is at that. Does anybody who is due stand in one?
CREATE OR REPLACE FUNCTION stoker.trim_runs(lines text[], rung bigint, now bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    line text;
    known stoker.run;
    foremost bigint;
    any_there boolean := false;
BEGIN
    FOREACH line IN ARRAY lines LOOP
        FOR known IN SELECT * FROM stoker.run WHERE queue = line AND bucket = rung AND due_at <= now
                ORDER BY due_at, last LOOP
            foremost := (SELECT id FROM stoker.job WHERE id BETWEEN known.first AND known.last
                AND joined AND queue = line AND bucket = rung AND due_at = known.due_at
                ORDER BY id LIMIT 1);
            any_there := any_there OR foremost IS NOT NULL;
            IF foremost IS DISTINCT FROM known.first THEN
                PERFORM FROM stoker.run WHERE queue = line AND bucket = rung
                    AND due_at = known.due_at AND last = known.last FOR UPDATE SKIP LOCKED;
                IF FOUND AND foremost IS NULL THEN
                    DELETE FROM stoker.run WHERE queue = line AND bucket = rung
                        AND due_at = known.due_at AND last = known.last;
                ELSIF FOUND THEN
                    UPDATE stoker.run SET first = foremost WHERE queue = line AND bucket = rung
                        AND due_at = known.due_at AND last = known.last;
                END IF;
            END IF;
            EXIT WHEN foremost IS NOT NULL;
        END LOOP;
    END LOOP;
    RETURN any_there;
END $$;

-- The same for all buckets of these queues, for whoever sees them without locking anybody.
CREATE OR REPLACE FUNCTION stoker.trim_all_runs(lines text[], now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    line text;
    rung bigint;
BEGIN
    FOREACH line IN ARRAY lines LOOP
        rung := -9223372036854775808;
        LOOP
            rung := (SELECT bucket FROM stoker.run WHERE queue = line AND bucket > rung
                ORDER BY bucket LIMIT 1);
            EXIT WHEN rung IS NULL;
            PERFORM stoker.trim_runs(ARRAY[line], rung, now);
        END LOOP;
    END LOOP;
END $$;

-- How many of the foremost jobs of a bucket are in each of several queues, and how many of them in runs:
-- no more shall be locked than are taken.
CREATE OR REPLACE FUNCTION stoker.shares(
    now bigint, rung bigint, most bigint, lines text[], dues bigint[], seconds bigint[],
    jobs bigint[], runs boolean, OUT apart bigint[], OUT in_runs bigint[]
)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF cardinality(lines) = 1 AND NOT EXISTS (
        SELECT FROM stoker.job
        WHERE queue = lines[1] AND state = 0 AND lane IS NULL AND NOT joined AND bucket = rung
            AND due_at <= now AND (due_at, second, id) > (dues[1], seconds[1], jobs[1]))
    THEN
        apart := '{0}';
        in_runs := ARRAY[most];
        RETURN;
    END IF;
    WITH foremost AS (
        SELECT place, in_run FROM unnest(lines, dues, seconds, jobs) WITH ORDINALITY
            AS behind (line, due, second, job, place)
        CROSS JOIN LATERAL (
            (SELECT due_at, id, false AS in_run FROM stoker.job
            WHERE queue = line AND state = 0 AND lane IS NULL AND NOT joined AND bucket = rung
                AND due_at <= now
                AND (due_at, job.second, id) > (behind.due, behind.second, behind.job)
            ORDER BY due_at, job.second, id LIMIT most)
            UNION ALL
            (SELECT due_at, id, true
            FROM stoker.in_runs(line, rung, now, -9223372036854775808, 0, 0)
            WHERE runs LIMIT most)
        ) AS candidate
        ORDER BY due_at, id LIMIT most
    )
    SELECT array_agg((SELECT count(*) FROM foremost WHERE foremost.place = each.place AND NOT in_run)
            ORDER BY each.place),
        array_agg((SELECT count(*) FROM foremost WHERE foremost.place = each.place AND in_run)
            ORDER BY each.place)
    INTO apart, in_runs FROM generate_series(1, cardinality(lines)) AS each (place);
END $$;
