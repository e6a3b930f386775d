-- Ends of jobs, many at once.
--
-- All of them must be still those on which that was decided, else nothing happens. Each routine gives
-- the limited queues in which there may be room now. The jobs come in the order of their ids, so that
-- two calls of one never wait for one another in a circle.

-- The queues in which there may be room because these hold less, if as many jobs have ended as were to.
CREATE OR REPLACE FUNCTION stoker.unless_stale(wanted bigint, settled bigint, loosened text[])
RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF settled IS DISTINCT FROM wanted THEN
        RAISE EXCEPTION 'some job has moved on' USING ERRCODE = 'STK02';
    END IF;
    RETURN stoker.eased(loosened);
END $$;

-- jobs[n] ends as states[n]. An array that is NULL says nothing of any job.
CREATE OR REPLACE FUNCTION stoker.settle(
    jobs bigint[], revisions bigint[], tokens bigint[], states smallint[], untils bigint[],
    ends bigint[], results bytea[], errors text[]
) RETURNS text[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    settled bigint;
    loosened text[];
BEGIN
    PERFORM stoker.refuse_if_sealed();
    WITH ended AS (
        UPDATE stoker.job SET state = said.state, until = said.until, ended_at = said.ended_at,
            result = said.result, error = said.error, token = NULL, session = NULL,
            revision = job.revision + 1
        FROM unnest(jobs, revisions, tokens, states, untils, ends, results, errors)
            AS said (id, revision, token, state, until, ended_at, result, error)
        WHERE job.id = said.id AND job.revision = said.revision AND job.token = said.token
        RETURNING job.queue, job.key, job.counted, job.weight, job.state
    ), moved AS (
        SELECT queue, count(*) AS many, sum(weight) AS units,
            count(*) FILTER (WHERE state = 3) AS finished,
            count(*) FILTER (WHERE state = 4) AS failed,
            count(*) FILTER (WHERE state = 5) AS cancelled,
            array_agg('=' || key) FILTER (WHERE counted AND weight > 0) AS parties
        FROM ended GROUP BY queue
    ), counted AS (
        INSERT INTO stoker.delta (queue, running, finished, failed, cancelled, used)
        SELECT queue, -many, finished, failed, cancelled, -units FROM moved
    ), told AS (
        INSERT INTO stoker.room (queue, parties)
        SELECT queue, parties FROM moved WHERE parties IS NOT NULL
    )
    SELECT sum(many), array_agg(queue) FILTER (WHERE units > 0) INTO settled, loosened FROM moved;
    RETURN stoker.unless_stale(cardinality(jobs), settled, loosened);
END $$;

-- The jobs are forgotten: they have ended before, or end so.
CREATE OR REPLACE FUNCTION stoker.forget(jobs bigint[], revisions bigint[], tokens bigint[])
RETURNS text[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    settled bigint;
    loosened text[];
BEGIN
    PERFORM stoker.refuse_if_sealed();
    WITH gone AS (
        DELETE FROM stoker.job
        USING unnest(jobs, revisions, tokens) AS said (id, revision, token)
        WHERE job.id = said.id AND job.revision = said.revision
            AND job.token IS NOT DISTINCT FROM said.token
        RETURNING job.queue, job.key, job.counted, job.weight, job.state
    ), moved AS (
        SELECT queue, count(*) AS many,
            count(*) FILTER (WHERE state = 1) AS running,
            count(*) FILTER (WHERE state = 3) AS finished,
            count(*) FILTER (WHERE state = 4) AS failed,
            count(*) FILTER (WHERE state = 5) AS cancelled,
            coalesce(sum(weight) FILTER (WHERE state = 1), 0) AS units,
            array_agg('=' || key) FILTER (WHERE counted AND weight > 0 AND state = 1) AS parties
        FROM gone GROUP BY queue
    ), counted AS (
        INSERT INTO stoker.delta (queue, running, finished, failed, cancelled, used)
        SELECT queue, -running, -finished, -failed, -cancelled, -units FROM moved
    ), told AS (
        INSERT INTO stoker.room (queue, parties)
        SELECT queue, parties FROM moved WHERE parties IS NOT NULL
    )
    SELECT sum(many), array_agg(queue) FILTER (WHERE units > 0) INTO settled, loosened FROM moved;
    RETURN stoker.unless_stale(cardinality(jobs), settled, loosened);
END $$;
