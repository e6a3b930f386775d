-- Claiming in one step from a queue in which nothing but the places and the turns of keys decides,
-- and of which all jobs that come into question have a key and the weight of one. Who is chosen is
-- said in `store/walk.py`; where more has to be known, that is asked.

-- The same as `claim`, for one queue that was found to be such a one. The verdict is "laned" if that
-- went well, then the ids are in `meta`, in their order; "kept" if the queue has to be walked now.
CREATE OR REPLACE FUNCTION stoker.claim_lanes(
    given bigint, queues text[], most bigint, lease bigint, holder bigint, visibility bigint,
    mark_queues text[], mark_buckets bigint[], mark_dues bigint[], mark_seconds bigint[],
    mark_jobs bigint[]
) RETURNS SETOF stoker.whole
LANGUAGE plpgsql VOLATILE
SET jit = off SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    heading stoker.whole;
    line text := queues[1];
    now bigint;
    seats stoker.seats;
BEGIN
    PERFORM stoker.heed(queues);
    PERFORM FROM stoker.queue WHERE name = line FOR UPDATE;
    now := stoker.moment(given);
    heading.id := 0;
    heading.due_at := now;
    heading.queue := stoker.verdict(queues, holder, now);
    IF heading.queue IN ('by rank', 'by time') THEN
        RETURN QUERY SELECT * FROM stoker.claim(given, queues, most, lease, holder, visibility,
            mark_queues, mark_buckets, mark_dues, mark_seconds, mark_jobs);
        RETURN;
    ELSIF heading.queue = 'laned' THEN
        PERFORM stoker.listen(queues, now);
        IF EXISTS (SELECT FROM stoker.job WHERE queue = line AND state = 0 AND lane = '!')
                OR EXISTS (SELECT FROM stoker.line(line, now, 1, -9223372036854775808,
                    mark_buckets, mark_dues, mark_seconds, mark_jobs)) THEN
            heading.queue := 'kept';
        ELSE
            seats := stoker.seats_in_lanes(line, now, most);
            IF seats.unclear OR NOT stoker.hold(seats.ids, seats.revisions) THEN
                heading.queue := 'kept';
            END IF;
        END IF;
    END IF;
    IF heading.queue = 'laned' THEN
        heading.meta := coalesce(array_to_json(seats.ids)::text, '[]');
    END IF;
    RETURN NEXT heading;
    IF heading.queue = 'laned' AND seats.ids IS NOT NULL THEN
        RETURN QUERY SELECT * FROM stoker.claim(given, '{}', 0, lease, holder, visibility,
            '{}', '{}', '{}', '{}', '{}', seats.ids, seats.revisions) WHERE id > 0;
        PERFORM stoker.leave_seats(line, seats);
    END IF;
END $$;

-- Lock jobs with which nobody has meddled. Are these all of them?
CREATE OR REPLACE FUNCTION stoker.hold(jobs bigint[], revisions bigint[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    held bigint[];
BEGIN
    held := ARRAY(SELECT job.id FROM unnest(jobs, revisions) AS wanted (id, revision)
        JOIN stoker.job ON job.id = wanted.id
        WHERE job.state = 0 AND job.revision = wanted.revision
        FOR UPDATE OF job SKIP LOCKED);
    RETURN cardinality(held) = coalesce(cardinality(jobs), 0);
END $$;

-- Who of a queue's lanes is next. It is unclear if somebody has another weight than one, a lane is
-- open that has no room, or more of a lane would have to be seen.
CREATE OR REPLACE FUNCTION stoker.seats_in_lanes(line text, now bigint, most bigint)
RETURNS stoker.seats
LANGUAGE plpgsql STABLE SET enable_hashjoin = on AS $$
DECLARE
    known stoker.queue;
    clock bigint;
    seats stoker.seats;
BEGIN
    SELECT * INTO known FROM stoker.queue WHERE name = line;
    IF known.paused THEN
        RETURN seats;
    END IF;
    clock := CASE WHEN known.fair THEN coalesce((SELECT reached FROM stoker.turn
        WHERE queue = line AND party = '!'), 0) ELSE 0 END;
    WITH foremost AS MATERIALIZED (
        (SELECT ctid AS spot, party, bucket, turn, major, minor, job, due_at FROM stoker.head
        WHERE queue = line AND kind = '' AND shut_until IS NULL AND turn <= 0
        ORDER BY turn, major, minor, job LIMIT most)
        UNION ALL
        (SELECT ctid, party, bucket, turn, major, minor, job, due_at FROM stoker.head
        WHERE known.fair AND queue = line AND kind = '' AND shut_until IS NULL
            AND turn >= greatest(clock, 1)
        ORDER BY turn, major, minor, job LIMIT most)
    ), open AS MATERIALIZED (
        SELECT *, greatest(turn, clock) AS number,
            CASE WHEN known.time_first THEN minor ELSE 0 END AS second,
            CASE WHEN known.key_units IS NOT NULL THEN (
                SELECT coalesce(sum(weight), 0)::bigint FROM stoker.job
                WHERE queue = line AND key = substr(party, 2) AND key IS NOT NULL
                    AND (state = 1 OR state = 2 AND waits_for LIKE 'reply:%')) END AS used
        FROM foremost ORDER BY number, major, minor, job LIMIT most
    ), lane AS MATERIALIZED (
        SELECT *, CASE WHEN known.key_units IS NULL THEN most WHEN used = 0
            THEN greatest(known.key_units / 1000, 1)
            ELSE greatest(known.key_units - used, 0) / 1000 END AS places,
            2 + most / (SELECT greatest(count(*), 1) FROM open) AS few
        FROM open
    ), shown AS MATERIALIZED (
        SELECT lane.spot, lane.party, lane.number, lane.used, lane.places, lane.few, member.id,
            member.revision, member.weight, member.due_at,
            CASE WHEN known.time_first THEN member.due_at ELSE lane.bucket END AS major,
            CASE WHEN known.time_first THEN member.second ELSE member.due_at END AS minor,
            member.due_at <= now AS due
        FROM lane LEFT JOIN LATERAL (
            SELECT id, revision, weight, job.due_at, job.second FROM stoker.job
            WHERE queue = line AND state = 0 AND lane = '' AND lane <> '!'
                AND coalesce('=' || key, '') = lane.party AND bucket = lane.bucket
                AND (job.due_at, job.second, id) >= (lane.due_at, lane.second, lane.job)
            ORDER BY job.due_at, job.second, id LIMIT least(lane.few, lane.places + 1)
        ) AS member ON true
    ), waiting AS MATERIALIZED (
        SELECT *, due AND row_number() OVER mine <= places AS fits,
            CASE WHEN known.fair THEN number + 1000 * (row_number() OVER mine - 1) END AS turn
        FROM shown WINDOW mine AS (PARTITION BY party, due ORDER BY major, minor, id)
    ), seated AS MATERIALIZED (
        SELECT *, fits AND row_number() OVER seat <= most AS taken, row_number() OVER seat AS seat
        FROM waiting WINDOW seat AS (ORDER BY fits DESC NULLS LAST, turn, major, minor, id)
    ), served AS MATERIALIZED (
        SELECT party, CASE WHEN number + 1000 * count(*) > max(max(turn)) OVER ()
                THEN number + 1000 * count(*) ELSE 0 END AS reached,
            used + 1000 * count(*) >= known.key_units AS is_full,
            max(ARRAY[major, minor, id]) AS last
        FROM seated WHERE taken GROUP BY party, number, used
    ), left_behind AS MATERIALIZED (
        SELECT spot, coalesce(reached, 0) AS reached, following
        FROM (SELECT spot, party, min(ARRAY[major, minor, id, due_at]) FILTER (WHERE NOT taken)
                AS following
            FROM seated GROUP BY spot, party HAVING bool_or(taken)) AS lane
        JOIN served USING (party)
    )
    SELECT
        (SELECT coalesce(bool_or(weight <> 1000 OR places < 1), false)
            OR count(*) FILTER (WHERE taken) < most AND count(DISTINCT spot) = most FROM seated)
        OR EXISTS (SELECT FROM seated GROUP BY spot, few, places
            HAVING bool_and(taken) AND count(*) = least(few, places + 1)),
        (SELECT array_agg(id ORDER BY seat) FROM seated WHERE taken),
        (SELECT array_agg(revision ORDER BY seat) FROM seated WHERE taken),
        array_agg(spot), array_agg(reached), array_agg(following[1]), array_agg(following[2]),
        array_agg(following[3]), array_agg(following[4]),
        array_agg(CASE WHEN following[4] > now THEN following[4] END),
        (SELECT array_agg(party) FROM served WHERE known.fair),
        (SELECT array_agg(reached) FROM served WHERE known.fair),
        (SELECT max(turn) FROM seated WHERE taken),
        (SELECT array_agg(party) FROM served WHERE is_full),
        (SELECT array_agg(last[1]) FROM served WHERE is_full),
        (SELECT array_agg(last[2]) FROM served WHERE is_full),
        (SELECT array_agg(last[3]) FROM served WHERE is_full)
    INTO seats FROM left_behind;
    RETURN seats;
END $$;

-- Write down who has been served, and which keys have no room any more.
CREATE OR REPLACE FUNCTION stoker.leave_seats(line text, seats stoker.seats) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM stoker.move_heads(seats.spots, seats.turns, seats.majors, seats.minors, seats.jobs,
        seats.dues, seats.shuts);
    IF seats.served IS NOT NULL THEN
        PERFORM stoker.take_turns(array_fill(line, ARRAY[cardinality(seats.served) + 1]),
            seats.served || '!'::text, seats.reached || seats.clock);
    END IF;
    IF seats.full_keys IS NOT NULL THEN
        PERFORM stoker.shut(array_fill(line, ARRAY[cardinality(seats.full_keys)]), seats.full_keys,
            array_fill(''::text, ARRAY[cardinality(seats.full_keys)]), seats.full_majors,
            seats.full_minors, seats.full_jobs,
            array_fill(9223372036854775807, ARRAY[cardinality(seats.full_keys)]));
    END IF;
END $$;
