-- Claims that stand: they are left by idle workers, and served by whoever brings a job.

-- Whoever left this claim hears that it was served, on a channel that nobody knows who may not read
-- here; about: what the job is about, NULL if that has to be looked up.
CREATE OR REPLACE FUNCTION stoker.tell_of_start(wish stoker.standing, about text) RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT pg_notify(wish.channel, json_build_array(wish.session, wish.token, wish.visibility,
        wish.job, wish.started_at, about)::text)
$$;

-- Stand in wait for a job of these queues, unless the lease has got one; with the marks from which on
-- the queues are to be searched. Whatever the session left before is over.
CREATE OR REPLACE FUNCTION stoker.stand(
    given bigint, channel text, queues text[], lease bigint, holder bigint, visibility bigint,
    mark_queues text[], mark_buckets bigint[], mark_dues bigint[], mark_seconds bigint[],
    mark_jobs bigint[]
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
BEGIN
    PERFORM stoker.stand_no_more(holder);
    IF NOT EXISTS (SELECT FROM stoker.job WHERE state = 1 AND session = holder AND token = lease) THEN
        INSERT INTO stoker.standing (queue, session, token, visibility, since, channel,
            buckets, dues, seconds, jobs)
        SELECT line, holder, lease, visibility, stoker.moment(given), channel,
            coalesce(array_agg(mark.bucket) FILTER (WHERE mark.bucket IS NOT NULL), '{}'),
            coalesce(array_agg(mark.due) FILTER (WHERE mark.bucket IS NOT NULL), '{}'),
            coalesce(array_agg(mark.second) FILTER (WHERE mark.bucket IS NOT NULL), '{}'),
            coalesce(array_agg(mark.job) FILTER (WHERE mark.bucket IS NOT NULL), '{}')
        FROM unnest(queues) AS line
        LEFT JOIN unnest(mark_queues, mark_buckets, mark_dues, mark_seconds, mark_jobs)
            AS mark (queue, bucket, due, second, job) ON mark.queue = line
        GROUP BY line;
    END IF;
END $$;

-- A claim that was served, and whose holder has not been told yet, leaves `announce` nobody to tell:
-- the holder is told here that a job is its own, but not what it is about.
CREATE OR REPLACE FUNCTION stoker.stand_no_more(holder bigint) RETURNS void
LANGUAGE sql VOLATILE AS $$
    WITH gone AS (DELETE FROM stoker.standing WHERE session = holder RETURNING *)
    SELECT stoker.tell_of_start(gone, NULL) FROM gone WHERE served IS NOT NULL
$$;

-- Whoever stands in wait for a job of a queue without limits, the last to come first, unless somebody
-- is ahead of a job that is due now. The claim is served by that, and marked so that `announce` knows
-- whom to tell of which job.
CREATE OR REPLACE FUNCTION stoker.serve_standing(line text, now bigint, mark bigint, fresh bigint)
RETURNS stoker.standing
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    wish stoker.standing;
BEGIN
    SELECT * INTO wish FROM stoker.standing
    WHERE queue = line AND served IS NULL
        AND EXISTS (SELECT FROM stoker.session WHERE session.id = standing.session
            AND retired_at IS NULL AND expires_at > now)
    ORDER BY since DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF pg_try_advisory_xact_lock_shared(hashtextextended(wish.channel, 0)) THEN
        -- Nobody holds the lock who would hear of it.
        DELETE FROM stoker.standing WHERE queue = line AND session = wish.session;
        RETURN NULL;
    ELSIF EXISTS (SELECT FROM stoker.queue WHERE name = line AND paused)
        OR cardinality(stoker.pick(now, ARRAY[line], 1,
            array_fill(line, ARRAY[cardinality(wish.buckets)]), wish.buckets, wish.dues,
            wish.seconds, wish.jobs)) > 0
    THEN
        RETURN NULL;
    END IF;
    UPDATE stoker.standing SET served = mark, job = fresh, started_at = now
    WHERE queue = line AND session = wish.session;
    RETURN wish;
END $$;

-- Tell of a new job: the one for whom it was started, or else all who listen.
CREATE OR REPLACE FUNCTION stoker.announce(
    everybody text, ring text, line text, mark bigint, about text
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
    wish stoker.standing;
BEGIN
    IF mark IS NOT NULL THEN
        DELETE FROM stoker.standing WHERE queue = line AND served = mark RETURNING * INTO wish;
    END IF;
    IF wish.session IS NULL THEN
        PERFORM pg_notify(everybody, ring);
    ELSE
        PERFORM stoker.tell_of_start(wish, about);
    END IF;
END $$;
