-- Ends of jobs, many at once.

-- jobs[n] ends as states[n], or is forgotten (NULL). All of them must be still those on which that
-- was decided, else nothing happens. Gives the limited queues in which there may be room now. The
-- jobs come in the order of their ids, so that two such calls never wait for one another in a circle.
CREATE OR REPLACE FUNCTION stoker.settle(
    jobs bigint[], revisions bigint[], tokens bigint[], states smallint[], untils bigint[],
    ends bigint[], results bytea[], errors text[]
) RETURNS text[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    settled bigint;
    eased text[];
BEGIN
    PERFORM stoker.refuse_if_sealed();
    WITH said AS (
        SELECT * FROM unnest(jobs, revisions, tokens, states, untils, ends, results, errors)
            AS word (id, revision, token, state, until, ended_at, result, error)
    ), ended AS (
        UPDATE stoker.job SET state = said.state, until = said.until, ended_at = said.ended_at,
            result = said.result, error = said.error, token = NULL, session = NULL,
            revision = job.revision + 1
        FROM said
        WHERE job.id = said.id AND job.revision = said.revision AND job.token = said.token
            AND said.state IS NOT NULL
        RETURNING job.queue, job.key, job.counted, job.weight, 1 AS source, job.state AS target
    ), forgotten AS (
        DELETE FROM stoker.job USING said
        WHERE job.id = said.id AND job.revision = said.revision
            AND job.token IS NOT DISTINCT FROM said.token AND said.state IS NULL
        RETURNING job.queue, job.key, job.counted, job.weight, job.state AS source,
            NULL::smallint AS target
    ), moved AS (
        SELECT queue, source, target, count(*) AS many, sum(weight) AS units,
            array_agg('=' || key) FILTER (WHERE counted AND weight > 0) AS parties
        FROM (SELECT * FROM ended UNION ALL SELECT * FROM forgotten) AS each
        GROUP BY queue, source, target
    ), counted AS (
        INSERT INTO stoker.delta (queue, running, finished, failed, cancelled, used)
        SELECT queue, -coalesce(sum(many) FILTER (WHERE source = 1), 0),
            coalesce(sum(many) FILTER (WHERE target = 3), 0)
                - coalesce(sum(many) FILTER (WHERE source = 3), 0),
            coalesce(sum(many) FILTER (WHERE target = 4), 0)
                - coalesce(sum(many) FILTER (WHERE source = 4), 0),
            coalesce(sum(many) FILTER (WHERE target = 5), 0)
                - coalesce(sum(many) FILTER (WHERE source = 5), 0),
            -coalesce(sum(units) FILTER (WHERE source = 1), 0)
        FROM moved GROUP BY queue
    ), loosened AS (
        SELECT queue FROM moved
        WHERE source = 1 AND units > 0
            AND EXISTS (SELECT FROM stoker.queue WHERE name = moved.queue AND eases)
    ), told AS (
        INSERT INTO stoker.room (queue, parties)
        SELECT queue, parties FROM moved WHERE source = 1 AND parties IS NOT NULL
    )
    SELECT (SELECT sum(many) FROM moved), ARRAY(SELECT DISTINCT queue FROM loosened)
    INTO settled, eased;
    IF settled IS DISTINCT FROM cardinality(jobs) THEN
        RAISE EXCEPTION 'some job has moved on' USING ERRCODE = 'STK02';
    END IF;
    RETURN CASE WHEN cardinality(eased) > 0 THEN stoker.eased(eased) ELSE eased END;
END $$;
