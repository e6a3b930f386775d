-- Taking in jobs that nobody can be a twin of.

-- counts[n] of the jobs are for the queue touched[n]. An array that is NULL leaves a fact as it is
-- by default. Gives the ids, in order.
CREATE OR REPLACE FUNCTION stoker.place(
    touched text[], counts bigint[], queues text[], names text[], payloads bytea[],
    formats smallint[], ranks bigint[], dues bigint[], policies text[], timeouts bigint[],
    stay boolean[], repeat boolean[], created bigint[], scheduled bigint[], weights bigint[],
    keys text[], metas text[]
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_mergejoin = off AS $$
DECLARE
    special boolean;
    ids bigint[];
BEGIN
    PERFORM stoker.refuse_if_sealed();
    PERFORM stoker.heed(touched);
    special := EXISTS (SELECT FROM stoker.queue
        WHERE name = ANY (touched) AND (limited OR time_first));
    WITH fresh AS (
        INSERT INTO stoker.job (id, queue, bucket, second, due_at, name, payload, format, policy,
            timeout, stays, repeats, created_at, scheduled_at, weight, key, meta, lane,
            counted)
        SELECT new.id, new.queue,
            CASE WHEN known.time_first THEN 0 ELSE coalesce(new.rank, 0) END,
            CASE WHEN known.time_first THEN coalesce(new.rank, 0) ELSE 0 END,
            new.due_at, new.name, new.payload, coalesce(new.format, 0::smallint), new.policy,
            CASE WHEN new.policy IS NULL THEN 86400000000 ELSE new.timeout END,
            coalesce(new.stays, false), coalesce(new.repeats, false), new.created_at,
            new.scheduled_at, coalesce(new.weight, 1000), new.key, new.meta,
            CASE WHEN known.limited
                THEN stoker.lane_of(new.key, new.name, new.weight, known.kinds) END,
            new.key IS NOT NULL AND coalesce(known.counts_keys, false)
        FROM (
            -- Numbered in the order given, whatever the join below makes of it.
            SELECT nextval('stoker.job_id') AS id, *
            FROM unnest(queues, names, payloads, formats, ranks, dues, policies, timeouts, stay,
                    repeat, created, scheduled, weights, keys, metas)
                AS job (queue, name, payload, format, rank, due_at, policy, timeout, stays,
                    repeats, created_at, scheduled_at, weight, key, meta)
        ) AS new
        LEFT JOIN stoker.queue AS known ON special AND known.name = new.queue
        RETURNING id, queue, key, lane, bucket
    ), told AS (
        INSERT INTO stoker.news (queue, kind, bucket, parties)
        SELECT queue, lane, bucket, array_agg(party) FROM (
            SELECT DISTINCT queue, lane, bucket, coalesce('=' || key, '') AS party FROM fresh
            WHERE lane <> '!') AS spot
        GROUP BY queue, lane, bucket
    )
    SELECT array_agg(id ORDER BY id) INTO ids FROM fresh;
    INSERT INTO stoker.delta (queue, queued) SELECT * FROM unnest(touched, counts);
    RETURN ids;
END $$;

-- The same for jobs that differ in their payloads alone: what they have in common is said once. Gives
-- their ids, in order, as stretches: from where to where, and from where to where again if others came
-- in between.
CREATE OR REPLACE FUNCTION stoker.place_alike(
    line text, task text, payloads bytea[], form smallint, rank bigint, due bigint, terms text,
    time_limit bigint, stay boolean, repeat boolean, created bigint, scheduled bigint,
    units bigint, party text, remark text
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    many integer[] := ARRAY[cardinality(payloads)];
    as_one boolean := cardinality(payloads) > 3;  -- fewer are not worth a run
    before bigint;
    last bigint;
    stretches bigint[];
BEGIN
    PERFORM stoker.refuse_if_sealed();
    PERFORM stoker.heed_one(line);
    IF EXISTS (SELECT FROM stoker.queue WHERE name = line AND (limited OR time_first)) THEN
        RETURN stoker.stretches(stoker.place(ARRAY[line], many::bigint[], array_fill(line, many),
            array_fill(task, many), payloads, array_fill(form, many), array_fill(rank, many),
            array_fill(due, many), array_fill(terms, many), array_fill(time_limit, many),
            array_fill(stay, many), array_fill(repeat, many), array_fill(created, many),
            array_fill(scheduled, many), array_fill(units, many), array_fill(party, many),
            array_fill(remark, many)));
    END IF;
    before := coalesce(pg_sequence_last_value('stoker.job_id'), 0);
    INSERT INTO stoker.job (id, queue, bucket, second, due_at, name, payload, format, policy,
        timeout, stays, repeats, created_at, scheduled_at, weight, key, meta, joined)
    SELECT nextval('stoker.job_id'), line, rank, 0, due, task, payload, form, terms, time_limit, stay,
        repeat, created, scheduled, units, party, remark, as_one
    FROM (  -- not as a function in FROM: all payloads would be written down before the first is read
        SELECT unnest(payloads) AS payload OFFSET 0) AS job;
    -- If just as many ids were given out meanwhile, all of them were given to us; so it is nearly always.
    last := currval('stoker.job_id');
    IF last - before = many[1] THEN
        stretches := ARRAY[before + 1, last];
    ELSE
        stretches := stoker.stretches(ARRAY(
            SELECT id FROM stoker.job
            WHERE id <= last AND xmin = (SELECT xmin FROM stoker.job WHERE id = last)
            ORDER BY id DESC LIMIT many[1]));
    END IF;
    IF as_one THEN
        INSERT INTO stoker.run (queue, bucket, due_at, first, last)
        VALUES (line, rank, due, stretches[1], stretches[cardinality(stretches)]);
    END IF;
    INSERT INTO stoker.delta (queue, queued) VALUES (line, many[1]);
    RETURN stretches;
END $$;

-- From where to where these ids go, and from where to where again.
CREATE OR REPLACE FUNCTION stoker.stretches(ids bigint[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(bound ORDER BY bound, place) FROM (
        SELECT min(id) AS first, max(id) AS last FROM (
            SELECT id, id - row_number() OVER (ORDER BY id) AS shift FROM unnest(ids) AS id) AS numbered
        GROUP BY shift) AS stretch
    CROSS JOIN LATERAL (VALUES (first, 1), (last, 2)) AS bounds (bound, place)
$$;

-- The same for one job, of which every fact is given: most calls bring no more, and a row costs half
-- of what arrays do. Gives its id.
--
-- If there is a mark the job may start at once, for whoever stands in wait for it: then its id comes
-- with a minus sign.
CREATE OR REPLACE FUNCTION stoker.place_one(
    line text, task text, body bytea, form smallint, rank bigint, due bigint, terms text,
    time_limit bigint, stay boolean, repeat boolean, created bigint, scheduled bigint,
    units bigint, party text, remark text, given bigint, mark bigint
) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
    fresh bigint;
    now bigint;
    wish stoker.standing;
BEGIN
    PERFORM stoker.heed_seal(), stoker.heed_one(line);
    IF EXISTS (SELECT FROM stoker.note WHERE key = 'stoker:seal')
        OR EXISTS (SELECT FROM stoker.queue WHERE name = line AND (limited OR time_first))
    THEN
        RETURN (stoker.place(ARRAY[line], ARRAY[1::bigint], ARRAY[line], ARRAY[task], ARRAY[body],
            ARRAY[form], ARRAY[rank], ARRAY[due], ARRAY[terms], ARRAY[time_limit], ARRAY[stay],
            ARRAY[repeat], ARRAY[created], ARRAY[scheduled], ARRAY[units], ARRAY[party],
            ARRAY[remark]))[1];
    END IF;
    fresh := nextval('stoker.job_id');
    IF mark IS NOT NULL AND EXISTS (SELECT FROM stoker.standing WHERE queue = line) THEN
        now := stoker.moment(given);
        wish := stoker.serve_standing(line, now, mark, fresh);
    END IF;
    IF wish.session IS NOT NULL THEN
        INSERT INTO stoker.job (id, queue, bucket, second, due_at, name, payload, format, policy,
            timeout, stays, repeats, created_at, scheduled_at, weight, key, meta,
            state, token, session, until, started_at, attempt, revision)
        VALUES (fresh, line, rank, 0, due, task, body, form, terms, time_limit, stay, repeat, created,
            scheduled, units, party, remark,
            1, wish.token, wish.session, least(now + time_limit, now + wish.visibility), now, 1, 1);
        INSERT INTO stoker.delta (queue, running, used) VALUES (line, 1, units);
        RETURN -fresh;
    END IF;
    INSERT INTO stoker.job (id, queue, bucket, second, due_at, name, payload, format, policy,
        timeout, stays, repeats, created_at, scheduled_at, weight, key, meta)
    VALUES (fresh, line, rank, 0, due, task, body, form, terms, time_limit, stay, repeat, created,
        scheduled, units, party, remark);
    INSERT INTO stoker.delta (queue, queued) VALUES (line, 1);
    RETURN fresh;
END $$;
