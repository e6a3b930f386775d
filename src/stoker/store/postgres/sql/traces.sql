-- What a claim leaves in the lanes of the queues it has walked, and which it has locked.

-- Each of these heads gives way to another of its lane, or to nobody (no job).
CREATE OR REPLACE FUNCTION stoker.move_heads(
    spots tid[], turns bigint[], majors bigint[], minors bigint[], jobs bigint[], dues bigint[],
    shuts bigint[]
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    UPDATE stoker.head SET turn = new.turn, major = new.major, minor = new.minor, job = new.job,
        due_at = new.due_at, shut_until = new.shut_until, behind = NULL
    FROM unnest(spots, turns, majors, minors, jobs, dues, shuts)
        AS new (spot, turn, major, minor, job, due_at, shut_until)
    WHERE head.ctid = new.spot AND new.job IS NOT NULL;
    DELETE FROM stoker.head WHERE ctid = ANY (ARRAY(
        SELECT spot FROM unnest(spots, jobs) AS old (spot, job) WHERE job IS NULL));
END $$;

-- Shut lanes from a place on, until a moment. Those behind a job that did not fit must not overtake
-- it, even if they are not due yet; those before it may still come.
CREATE OR REPLACE FUNCTION stoker.shut(
    queues text[], parties text[], kinds text[], majors bigint[], minors bigint[], jobs bigint[],
    untils bigint[]
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    WITH behind AS MATERIALIZED (
        SELECT lane.spot, lane.until
        FROM unnest(queues, parties, kinds, majors, minors, jobs, untils)
            AS word (queue, party, kind, major, minor, job, until)
        CROSS JOIN LATERAL (
            SELECT ctid AS spot, greatest(word.until, due_at) AS until FROM stoker.head
            WHERE queue = word.queue AND party = word.party AND kind = word.kind
                AND (major, minor, job) >= (word.major, word.minor, word.job)
                AND shut_until IS DISTINCT FROM greatest(word.until, due_at)
            OFFSET 0) AS lane
    )
    UPDATE stoker.head SET shut_until = behind.until FROM behind WHERE head.ctid = behind.spot;
END $$;

-- Parties have been served so far: their heads tell it, or if they have none, a row of `turn`. If the
-- clock ('!') moves, whom it has passed is level with all others.
CREATE OR REPLACE FUNCTION stoker.take_turns(queues text[], parties text[], numbers bigint[])
RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_sort = off AS $$
DECLARE
    clock record;
BEGIN
    -- Whom the clock had passed before is level already: only the way it has gone since is looked at.
    FOR clock IN SELECT word.queue, coalesce(before.reached, 0) AS since, word.reached, known.kinds
            FROM unnest(queues, parties, numbers) AS word (queue, party, reached)
            JOIN stoker.queue AS known ON known.name = word.queue
            LEFT JOIN stoker.turn AS before
                ON before.queue = word.queue AND before.party = word.party
            WHERE word.party = '!' AND word.reached > coalesce(before.reached, 0) LOOP
        UPDATE stoker.head SET turn = 0 WHERE ctid = ANY (ARRAY(
            SELECT lane.spot FROM unnest(clock.kinds) AS wanted (kind) CROSS JOIN LATERAL (
                SELECT ctid AS spot FROM stoker.head
                WHERE queue = clock.queue AND kind = wanted.kind AND shut_until IS NULL
                    AND turn >= greatest(clock.since, 1) AND turn < clock.reached
                ORDER BY turn) AS lane));
    END LOOP;
    WITH served AS MATERIALIZED (
        SELECT word.queue, word.party, word.reached, lane.spot, lane.turn
        FROM unnest(queues, parties, numbers) AS word (queue, party, reached)
        LEFT JOIN LATERAL (
            SELECT ctid AS spot, turn FROM stoker.head
            WHERE queue = word.queue AND party = word.party
            OFFSET 0) AS lane ON true
    ), headless AS (
        INSERT INTO stoker.turn (queue, party, reached)
        SELECT queue, party, reached FROM served WHERE spot IS NULL
        ON CONFLICT (queue, party) DO UPDATE SET reached = excluded.reached
    )
    UPDATE stoker.head SET turn = served.reached FROM served
    WHERE head.ctid = served.spot AND served.turn <> served.reached;
END $$;
