-- Routines that others build on.
--
-- Routines do what has to happen inside the server: in one round trip, and with plans that are kept
-- also where a pooler stands between. Plans are pinned by switches rather than left to statistics,
-- for those of a table that fills and empties within seconds are always wrong.

-- The moment that was given, or else the server's clock.
CREATE OR REPLACE FUNCTION stoker.moment(given bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- Whether the store is sealed stays as it is until the transaction ends.
CREATE OR REPLACE FUNCTION stoker.heed_seal() RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT pg_advisory_xact_lock_shared('stoker.note'::regclass::oid::integer, 0)
$$;

-- Is the store sealed? It stays as it is until the transaction ends.
CREATE OR REPLACE FUNCTION stoker.sealed() RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM stoker.heed_seal();
    RETURN EXISTS (SELECT FROM stoker.note WHERE key = 'stoker:seal');
END $$;

-- Set the seal, or let in jobs by their ids: nobody takes in any others until the transaction ends.
-- Who comes later has to wait meanwhile, so that is not tried for long.
CREATE OR REPLACE FUNCTION stoker.stand_alone() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    PERFORM pg_advisory_xact_lock('stoker.note'::regclass::oid::integer, 0);
END $$;

-- Refuse the short way to a store that is sealed.
CREATE OR REPLACE FUNCTION stoker.refuse_if_sealed() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF stoker.sealed() THEN
        RAISE EXCEPTION 'the store is sealed' USING ERRCODE = 'STK01';
    END IF;
END $$;

-- Go by the settings of a queue: they stay as they are until the transaction ends.
CREATE OR REPLACE FUNCTION stoker.heed_one(line text) RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT pg_advisory_xact_lock_shared('stoker.queue'::regclass::oid::integer, hashtext(line) & 63)
$$;

-- Go by the settings of these queues: they stay as they are until the transaction ends.
CREATE OR REPLACE FUNCTION stoker.heed(queues text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared('stoker.queue'::regclass::oid::integer, stripe.number)
    FROM (SELECT DISTINCT hashtext(name) & 63 AS number FROM unnest(queues) AS name ORDER BY 1)
        AS stripe;
END $$;

-- Change order or limits of a queue: whoever goes by the old ones is waited for, but not for long.
CREATE OR REPLACE FUNCTION stoker.seize(line text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    PERFORM pg_advisory_xact_lock('stoker.queue'::regclass::oid::integer, hashtext(line) & 63);
END $$;

-- The kind of lane in which a job of a limited queue stands, of those that the queue has: apart if it
-- needs no room, with those of its task if that has a limit, else with its key's; NULL: in none.
CREATE OR REPLACE FUNCTION stoker.lane_of(key text, name text, weight bigint, kinds text[])
RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN weight = 0 THEN '!' WHEN '~' || name = ANY (kinds) THEN '~' || name
        WHEN key IS NOT NULL THEN '' END
$$;

-- By what a queue with ageing sorts its jobs: a step of time for each rank.
CREATE OR REPLACE FUNCTION stoker.aged(rank bigint, step bigint, due_at bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(least(rank::numeric * step + due_at, 9223372036854775807),
        -9223372036854775808)::bigint
$$;

-- The queues in which there may be room because these hold less than before: those of them where
-- somebody may wait for it, those within them, those that they are within, and whoever else is within
-- those.
CREATE OR REPLACE FUNCTION stoker.eased(loosened text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    around text[] := ARRAY(SELECT name FROM stoker.queue WHERE name = ANY (loosened) AND eases);
BEGIN
    IF around = '{}' THEN
        RETURN around;
    END IF;
    around := around || ARRAY(SELECT within FROM stoker.queue
        WHERE name = ANY (around) AND within IS NOT NULL);
    RETURN ARRAY(SELECT unnest(around)
        UNION SELECT name FROM stoker.queue WHERE within = ANY (around) AND within IS NOT NULL);
END $$;

-- Who stands in runs of a queue's bucket and is due, behind a place, in order: all joins are nested loops,
-- which keep it.
CREATE OR REPLACE FUNCTION stoker.in_runs(
    line text, rung bigint, now bigint, after_due bigint, after_second bigint, after_job bigint
) RETURNS SETOF stoker.job
LANGUAGE sql STABLE AS $$
    SELECT member.* FROM (
        SELECT due_at, min(first) AS first, max(last) AS last FROM stoker.run
        WHERE queue = line AND bucket = rung AND due_at <= now AND due_at >= after_due
        GROUP BY due_at ORDER BY due_at) AS run
    CROSS JOIN LATERAL (
        SELECT job.* FROM stoker.job WHERE id BETWEEN run.first AND run.last
            AND joined AND queue = line AND bucket = rung AND due_at = run.due_at
            AND (due_at, second, id) > (after_due, after_second, after_job)
        ORDER BY id) AS member
$$;

-- The first bucket behind another in which a queue may have jobs without a lane. That there are
-- marked ones is known, and their dead rows need not be passed to learn it.
CREATE OR REPLACE FUNCTION stoker.next_bucket(line text, behind bigint, marked bigint[])
RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    known bigint;
    seen bigint;
BEGIN
    SELECT min(mark) INTO known FROM unnest(marked) AS mark WHERE mark > behind;
    SELECT bucket INTO seen FROM stoker.job
    WHERE queue = line AND state = 0 AND lane IS NULL AND NOT joined
        AND bucket > behind AND bucket < coalesce(known, 9223372036854775807)
    ORDER BY bucket LIMIT 1;
    RETURN least(seen, known, (SELECT bucket FROM stoker.run
        WHERE queue = line AND bucket > behind ORDER BY bucket LIMIT 1));
END $$;
