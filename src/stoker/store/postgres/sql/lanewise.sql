-- Claiming in one step from a queue in which nothing but the places and the turns of keys decides,
-- and of which all jobs that come into question have a key and the weight of one. Who is chosen is
-- said in `store/walk.py`; where more has to be known, that is asked.

-- Who is next in a queue, if that can be told.
CREATE OR REPLACE FUNCTION stoker.seats(
    line text, now bigint, most bigint,
    mark_buckets bigint[], mark_dues bigint[], mark_seconds bigint[], mark_jobs bigint[]
) RETURNS stoker.seats
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    seats stoker.seats;
BEGIN
    PERFORM stoker.listen(ARRAY[line], now);
    seats.unclear := EXISTS (
            SELECT FROM stoker.job WHERE queue = line AND state = 0 AND lane = '!')
        OR EXISTS (SELECT FROM stoker.line(line, now, 1, -9223372036854775808,
            mark_buckets, mark_dues, mark_seconds, mark_jobs));
    IF NOT seats.unclear THEN
        seats := stoker.seats_in_lanes(line, now, most);
    END IF;
    RETURN seats;
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
    WITH foremost AS (
        (SELECT ctid AS spot, party, bucket, turn, major, minor, job, due_at FROM stoker.head
        WHERE queue = line AND kind = '' AND shut_until IS NULL AND turn <= 0
        ORDER BY turn, major, minor, job LIMIT most)
        UNION ALL
        (SELECT ctid, party, bucket, turn, major, minor, job, due_at FROM stoker.head
        WHERE known.fair AND queue = line AND kind = '' AND shut_until IS NULL
            AND turn >= greatest(clock, 1)
        ORDER BY turn, major, minor, job LIMIT most)
    ), open AS MATERIALIZED (
        SELECT *, CASE WHEN known.key_units IS NOT NULL THEN (
                SELECT coalesce(sum(weight), 0)::bigint FROM stoker.job
                WHERE queue = line AND key = substr(party, 2) AND key IS NOT NULL
                    AND (state = 1 OR state = 2 AND waits_for LIKE 'reply:%')) END AS used
        FROM (SELECT *, greatest(turn, clock) AS number FROM foremost
            ORDER BY number, major, minor, job LIMIT most) AS first
    ), lane AS (
        SELECT *, 2 + most / (SELECT count(*) FROM open) AS few,
            CASE WHEN known.key_units IS NULL THEN most WHEN used = 0
                THEN greatest(known.key_units / 1000, 1)
                ELSE greatest(known.key_units - used, 0) / 1000 END AS places
        FROM open
    ), shown AS (
        SELECT spot, party, number, used, places, few, id, revision, weight, member.due_at,
            CASE WHEN known.time_first THEN member.due_at ELSE lane.bucket END AS major,
            CASE WHEN known.time_first THEN member.second ELSE member.due_at END AS minor,
            coalesce(member.due_at <= now, false) AS due
        FROM lane LEFT JOIN LATERAL (
            SELECT id, revision, weight, job.due_at, job.second FROM stoker.job
            WHERE queue = line AND state = 0 AND lane = '' AND lane <> '!'
                AND coalesce('=' || key, '') = lane.party AND bucket = lane.bucket
                AND (job.due_at, job.second, id) >= (lane.due_at,
                    CASE WHEN known.time_first THEN lane.minor ELSE 0 END, lane.job)
            ORDER BY job.due_at, job.second, id LIMIT least(few, places + 1)
        ) AS member ON true
    ), waiting AS (
        SELECT *, due AND row_number() OVER mine <= places AS fits,
            number + CASE WHEN known.fair THEN 1000 * (row_number() OVER mine - 1) ELSE 0 END AS turn
        FROM shown WINDOW mine AS (PARTITION BY party, due ORDER BY major, minor, id)
    ), seated AS MATERIALIZED (
        SELECT *, fits AND row_number() OVER (ORDER BY fits DESC, turn, major, minor, id) <= most
            AS taken
        FROM waiting
    ), chosen AS MATERIALIZED (  -- in order: nothing sorts them anew
        SELECT array_agg(id) AS ids, array_agg(revision) AS revisions, max(turn) AS clock
        FROM seated WHERE taken
    ), served AS MATERIALIZED (
        SELECT spot, party, number, few, places, used, bool_or(weight <> 1000) AS is_odd,
            count(*) AS seen, count(*) FILTER (WHERE taken) AS many,
            min(ARRAY[major, minor, id, due_at]) FILTER (WHERE NOT taken) AS next,
            max(ARRAY[major, minor, id]) FILTER (WHERE taken) AS last
        FROM seated GROUP BY spot, party, number, few, places, used
    ), moved AS (
        SELECT array_agg(spot), array_agg(CASE WHEN known.fair AND number + 1000 * many
                > (SELECT chosen.clock FROM chosen) THEN number + 1000 * many ELSE 0 END),
            array_agg(next[1]), array_agg(next[2]), array_agg(next[3]), array_agg(next[4]),
            array_agg(CASE WHEN next[4] > now THEN next[4] END)
        FROM served WHERE many > 0
    ), turned AS (
        SELECT array_agg(party), array_agg(CASE WHEN reached > (SELECT chosen.clock FROM chosen)
            THEN reached ELSE 0 END)
        FROM (SELECT party, number + 1000 * sum(many)::bigint AS reached FROM served
            WHERE known.fair AND many > 0 GROUP BY party, number) AS each
    ), filled AS (
        SELECT array_agg(party), array_agg(last[1]), array_agg(last[2]), array_agg(last[3])
        FROM served WHERE many > 0 AND used + 1000 * many >= known.key_units
    ), doubt AS (
        SELECT bool_or(is_odd OR places < 1 OR many = seen AND seen = least(few, places + 1))
            OR count(*) = most AND sum(many) < most
        FROM served
    )
    SELECT * INTO seats FROM doubt, (SELECT ids, revisions FROM chosen) AS jobs, moved, turned,
        (SELECT chosen.clock FROM chosen) AS moment, filled;
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
