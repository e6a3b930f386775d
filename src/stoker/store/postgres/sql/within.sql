-- One change, for transactions of others: one statement with one text, which every driver can send.

-- The change is JSON; so is the answer: the ids that were given and the parents that were told, or
-- the twins. A job that has moved on is an error, so that the transaction cannot be committed. The
-- names in "rings" are told when it is.
CREATE OR REPLACE FUNCTION stoker.commit_within(document text) RETURNS text
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
    change jsonb := document;
    seal jsonb;
    item jsonb;
    twins jsonb;
    ids bigint[] := '{}';
    told bigint[] := '{}';
    parent bigint;
    rings jsonb := change -> 'rings';
BEGIN
    IF stoker.sealed() THEN
        seal := (SELECT convert_from(value, 'UTF8') FROM stoker.note WHERE key = 'stoker:seal');
        IF (seal ->> 'shut')::boolean OR jsonb_array_length(change -> 'inserts') > 0 THEN
            RAISE EXCEPTION '%', seal ->> 'why' USING ERRCODE = 'STK01';
        END IF;
    END IF;
    PERFORM stoker.heed(ARRAY(SELECT jsonb_array_elements_text(change -> 'queues')));
    twins := stoker.twins_of(change -> 'inserts');
    IF twins IS NULL THEN
        BEGIN
            FOR item IN SELECT * FROM jsonb_array_elements(change -> 'inserts') LOOP
                ids := ids || stoker.take_in(item);
            END LOOP;
        EXCEPTION WHEN unique_violation THEN
            -- Somebody was faster, and has committed by now.
            twins := stoker.twins_of(change -> 'inserts');
        END;
    END IF;
    IF twins IS NOT NULL THEN
        RETURN jsonb_build_object('twins', twins);
    END IF;
    FOR item IN SELECT value FROM jsonb_array_elements(change -> 'writes')
            ORDER BY (value ->> 'id')::bigint LOOP
        rings := rings || stoker.rewrite(item);
    END LOOP;
    FOR item IN SELECT * FROM jsonb_array_elements(change -> 'tallies') LOOP
        UPDATE stoker.job SET open_children = open_children - 1, revision = revision + 1,
            finished_children = finished_children + (item ->> 'ended' = '3')::integer,
            failed_children = failed_children + (item ->> 'ended' = '4')::integer,
            cancelled_children = cancelled_children + (item ->> 'ended' = '5')::integer
        WHERE id = (item ->> 'parent_id')::bigint RETURNING id INTO parent;
        IF FOUND AND parent <> ALL (told) THEN
            told := told || parent;
        END IF;
    END LOOP;
    -- What is too long for a notification is left to those who look by themselves.
    IF jsonb_array_length(rings) > 0 AND octet_length(rings::text) < 7900 THEN
        PERFORM pg_notify(change ->> 'channel', ('["within"]'::jsonb || rings)::text);
    END IF;
    RETURN jsonb_build_object('ids', ids, 'parents', told);
END $$;

-- Which new jobs would be somebody's twin: by their place, who has the name already; 0 if it is one
-- of themselves. NULL: none.
CREATE OR REPLACE FUNCTION stoker.twins_of(inserts jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (WITH newcomer AS (
        SELECT place - 1 AS place, value ->> 'unique_key' AS unique_key, value ->> 'ref' AS ref
        FROM jsonb_array_elements(inserts) WITH ORDINALITY AS each (value, place)
    )
    SELECT jsonb_object_agg(place, owner) FROM (
        SELECT place, coalesce(
            (SELECT id FROM stoker.job WHERE job.unique_key = newcomer.unique_key
                AND job.unique_key IS NOT NULL AND state < 3),
            (SELECT id FROM stoker.job WHERE job.ref = newcomer.ref AND job.ref IS NOT NULL),
            (SELECT 0 FROM newcomer AS first WHERE first.place < newcomer.place
                AND (first.unique_key = newcomer.unique_key OR first.ref = newcomer.ref)
                LIMIT 1)) AS owner
        FROM newcomer) AS found
    WHERE owner IS NOT NULL);
END $$;

-- A new job. Its facts are columns, but for the rank, whose column depends on the queue.
CREATE OR REPLACE FUNCTION stoker.take_in(facts jsonb) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    job stoker.job := jsonb_populate_record(NULL::stoker.job, facts);
BEGIN
    job.id := nextval('stoker.job_id');
    job := stoker.put_in_place(job, (facts ->> 'rank')::bigint);
    INSERT INTO stoker.job SELECT job.*;
    PERFORM stoker.book(NULL, job);
    RETURN job.id;
END $$;

-- What becomes of a job (no facts: it is forgotten), if it is still the one on which that was
-- decided. Gives the names to ring for because room was made.
CREATE OR REPLACE FUNCTION stoker.rewrite(item jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    before stoker.job;
    after stoker.job;
    facts jsonb := item -> 'set';
BEGIN
    SELECT * INTO before FROM stoker.job WHERE id = (item ->> 'id')::bigint FOR UPDATE;
    IF before.revision IS DISTINCT FROM (item ->> 'revision')::bigint
            OR before.token IS DISTINCT FROM (item ->> 'token')::bigint THEN
        RAISE EXCEPTION 'job % is no longer yours; stop working on it', item ->> 'id'
            USING ERRCODE = 'STK02';
    END IF;
    DELETE FROM stoker.job WHERE id = before.id;
    IF facts IS NOT NULL THEN
        after := jsonb_populate_record(before, facts);
        after.revision := before.revision + 1;
        after := stoker.put_in_place(after,
            coalesce((facts ->> 'rank')::bigint, before.bucket + before.second));
        INSERT INTO stoker.job SELECT after.*;
    END IF;
    RETURN stoker.book(before, after);
END $$;

-- A job with the place that it has in its queue.
CREATE OR REPLACE FUNCTION stoker.put_in_place(job stoker.job, rank bigint) RETURNS stoker.job
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    line stoker.queue;
BEGIN
    SELECT * INTO line FROM stoker.queue WHERE name = job.queue;
    job.bucket := CASE WHEN line.time_first THEN 0 ELSE rank END;
    job.second := CASE WHEN line.time_first THEN rank ELSE 0 END;
    job.lane := CASE WHEN line.limited
        THEN stoker.lane_of(job.key, job.name, job.weight, line.kinds) END;
    job.joined := false;
    job.counted := job.key IS NOT NULL AND coalesce(line.counts_keys, false);
    RETURN job;
END $$;

-- Enter into the books that a job was so and is so now. Gives the queues in which there may be room.
CREATE OR REPLACE FUNCTION stoker.book(before stoker.job, after stoker.job) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    job stoker.job;
    step integer := -1;
    units bigint;
    eased jsonb := '[]';
BEGIN
    FOREACH job IN ARRAY ARRAY[before, after] LOOP
        IF job.id IS NOT NULL THEN
            units := CASE WHEN job.state = 1 OR job.waits_for LIKE 'reply:%'
                THEN job.weight ELSE 0 END;
            INSERT INTO stoker.delta (queue, queued, running, waiting, finished, failed, cancelled,
                used)
            SELECT job.queue, step * (job.state = 0)::integer, step * (job.state = 1)::integer,
                step * (job.state = 2)::integer, step * (job.state = 3)::integer,
                step * (job.state = 4)::integer, step * (job.state = 5)::integer, step * units;
            IF EXISTS (SELECT FROM stoker.queue WHERE name = job.queue AND limited) THEN
                INSERT INTO stoker.news (queue, kind, bucket, parties)
                SELECT job.queue, job.lane, job.bucket, ARRAY[coalesce('=' || job.key, '')]
                WHERE job.state = 0 AND job.lane <> '!';
                INSERT INTO stoker.room (queue, parties)
                SELECT job.queue, ARRAY['=' || job.key]
                WHERE job.state <> 0 AND job.key IS NOT NULL AND units > 0;
            END IF;
            IF step < 0 AND units > 0 THEN
                eased := to_jsonb(stoker.eased(ARRAY[job.queue]));
            END IF;
        END IF;
        step := 1;
    END LOOP;
    RETURN eased;
END $$;
