-- Claiming in one step from a queue in which nothing but the places and the turns of keys decides,
-- and of which all jobs that come into question have a key and the weight of one; or nothing but the
-- places and the bucket of the queue, and they have no key. Who is chosen is said in `store/walk.py`;
-- where more has to be known, that is asked.

-- Who is next in a queue, if that can be told.
CREATE OR REPLACE FUNCTION stoker.seats(
    line text, given bigint, now bigint, most bigint, mark_queues text[],
    mark_buckets bigint[], mark_dues bigint[], mark_seconds bigint[], mark_jobs bigint[]
) RETURNS stoker.seats
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    known stoker.queue;
    seats stoker.seats;
BEGIN
    SELECT * INTO known FROM stoker.queue WHERE name = line;
    IF known.paused THEN
        RETURN seats;
    ELSIF known.own_units IS NOT NULL OR known.fill_step IS NOT NULL THEN
        RETURN stoker.seats_of_queue(known, given, now, most, mark_queues, mark_buckets, mark_dues,
            mark_seconds, mark_jobs);
    END IF;
    seats.unclear := EXISTS (
            SELECT FROM stoker.job WHERE queue = line AND state = 0 AND lane = '!')
        OR EXISTS (SELECT FROM stoker.job
            WHERE queue = line AND state = 0 AND lane IS NULL AND NOT joined)
            AND stoker.has_laneless(line, now, mark_queues, mark_buckets, mark_dues,
                mark_seconds, mark_jobs);
    IF seats.unclear THEN
        RETURN seats;
    END IF;
    seats := stoker.seats_in_line(known, now, most, (
        SELECT row(bucket, due, second, job)::stoker.mark
        FROM unnest(mark_queues, mark_buckets, mark_dues, mark_seconds, mark_jobs)
            AS marked (queue, bucket, due, second, job)
        WHERE queue IS NULL ORDER BY bucket LIMIT 1));
    IF seats.unclear THEN
        PERFORM stoker.listen(ARRAY[line], now);
        SELECT * INTO known FROM stoker.queue WHERE name = line;
        seats := stoker.seats_of_heads(known, now, most);
    END IF;
    IF seats.unclear THEN
        seats := stoker.seats_in_lanes(known, now, most);
    END IF;
    RETURN seats;
END $$;

-- Who is next if only the queue as a whole has so many places, or a bucket: the foremost jobs, as far
-- as there is room. It is unclear if somebody stands in a lane, or has another weight than one, and if
-- the bucket has not enough for all who may be asked for: then somebody has to say when it will.
CREATE OR REPLACE FUNCTION stoker.seats_of_queue(
    known stoker.queue, given bigint, now bigint, most bigint, mark_queues text[],
    mark_buckets bigint[], mark_dues bigint[], mark_seconds bigint[], mark_jobs bigint[]
) RETURNS stoker.seats
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    line text := known.name;
    full_at bigint;
    seats stoker.seats;
BEGIN
    IF known.own_units IS NOT NULL THEN
        most := least(most, stoker.places(known.own_units, stoker.used_within(line), most));
    END IF;
    full_at := stoker.full_at(known, now);
    seats.unclear := EXISTS (
            SELECT FROM stoker.job WHERE queue = line AND state = 0 AND lane <> '!')
        OR EXISTS (SELECT FROM stoker.job WHERE queue = line AND state = 0 AND lane = '!')
        OR known.opens_at IS NOT NULL
        OR most > (known.fill_whole - (full_at - now)) / known.fill_step;
    IF seats.unclear THEN
        RETURN seats;
    END IF;
    seats.picked := stoker.pick(now, ARRAY[line], most, mark_queues, mark_buckets, mark_dues,
        mark_seconds, mark_jobs);
    seats.in_line := CASE WHEN known.time_first THEN 'by time' ELSE 'by rank' END;
    seats.unclear := EXISTS (
        SELECT FROM stoker.job WHERE ctid = ANY (seats.picked) AND weight <> 1000);
    IF full_at IS NOT NULL AND cardinality(seats.picked) > 0 AND NOT seats.unclear THEN
        seats.began := stoker.moment(given);
        full_at := greatest(full_at, seats.began) + cardinality(seats.picked) * known.fill_step;
        INSERT INTO stoker.flow (queue, meter, state, until)
        VALUES (line, '', format('0 %s %s', full_at, seats.began), full_at)
        ON CONFLICT (queue, meter) DO UPDATE SET state = excluded.state, until = excluded.until;
    END IF;
    RETURN seats;
END $$;

-- When the bucket of a queue will be full, if nobody takes anything more; NULL if it has none. As
-- `kernel.rate` remembers it.
CREATE OR REPLACE FUNCTION stoker.full_at(known stoker.queue, now bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    remembered text[];
BEGIN
    IF known.fill_step IS NULL THEN
        RETURN NULL;
    END IF;
    remembered := string_to_array(
        (SELECT state FROM stoker.flow WHERE queue = known.name AND meter = ''), ' ');
    IF remembered[1] = '0' AND remembered[3]::bigint <= now + known.fill_period THEN
        RETURN greatest(remembered[2]::bigint, now);
    END IF;
    RETURN now;
END $$;

-- Is somebody due who stands in no lane, as far as marks tell?
CREATE OR REPLACE FUNCTION stoker.has_laneless(
    line text, now bigint, mark_queues text[],
    mark_buckets bigint[], mark_dues bigint[], mark_seconds bigint[], mark_jobs bigint[]
) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
    own record;
BEGIN
    SELECT coalesce(array_agg(bucket), '{}') AS buckets, array_agg(due) AS dues,
        array_agg(second) AS seconds, array_agg(job) AS jobs INTO own
    FROM unnest(mark_queues, mark_buckets, mark_dues, mark_seconds, mark_jobs)
        AS mark (queue, bucket, due, second, job) WHERE mark.queue = line;
    RETURN EXISTS (SELECT FROM stoker.line(line, now, 1, -9223372036854775808,
        own.buckets, own.dues, own.seconds, own.jobs));
END $$;

-- Who is next if no key is in the way: the foremost jobs, if all of them find room. Then no lane is
-- looked at, and none is written: word of it is left for whoever looks at them. It is unclear where
-- keys take turns or some key is full, behind the jobs of the first rank, and when more words have been
-- left than a claim hears at once.
CREATE OR REPLACE FUNCTION stoker.seats_in_line(
    known stoker.queue, now bigint, most bigint, mark stoker.mark
) RETURNS stoker.seats
LANGUAGE plpgsql VOLATILE SET enable_sort = off AS $$
DECLARE
    line text := known.name;
    seats stoker.seats;
BEGIN
    seats.unclear := known.fair OR EXISTS (
            SELECT FROM stoker.head WHERE queue = line AND shut_until = 9223372036854775807)
        OR most + (SELECT coalesce(sum(words), 0) FROM stoker.news WHERE queue = line)
            > stoker.heard_at_once();
    IF seats.unclear THEN
        RETURN seats;
    END IF;
    seats.bucket := (SELECT bucket FROM stoker.job
        WHERE queue = line AND state = 0 AND lane = '' AND counted
            AND bucket < coalesce(mark.bucket, 9223372036854775807) ORDER BY bucket LIMIT 1);
    IF seats.bucket IS NOT NULL OR mark IS NULL THEN
        mark := (seats.bucket, -9223372036854775808, 0, 0);
    END IF;
    seats.bucket := mark.bucket;
    seats.in_line := CASE WHEN known.time_first THEN 'by time' ELSE 'by rank' END;
    WITH foremost AS MATERIALIZED (
        SELECT ctid AS seat, id, weight, key FROM stoker.job
        WHERE queue = line AND state = 0 AND lane = '' AND counted AND bucket = seats.bucket
            AND due_at <= now
            AND (due_at, second, id) > (mark.due_at, mark.second, mark.job)
        ORDER BY due_at, second, id LIMIT most FOR UPDATE SKIP LOCKED
    ), holder AS MATERIALIZED (
        SELECT many, (
            SELECT coalesce(sum(weight), 0)::bigint FROM stoker.job
            WHERE queue = line AND key = mine.key AND counted
                AND (state = 1 OR state = 2 AND waits_for LIKE 'reply:%')) AS used
        FROM (SELECT key, count(*) AS many FROM foremost GROUP BY key) AS mine
    )
    SELECT count(*) < most OR bool_or(weight <> 1000) OR (
            SELECT bool_or(many > stoker.places(known.key_units, used, most)) FROM holder),
        array_agg(id), array_agg(seat), array_agg('=' || key)
    INTO seats.unclear, seats.ids, seats.picked, seats.served FROM foremost;
    RETURN seats;
END $$;

-- The open lanes of a queue that come first, in order; if keys are limited, with what theirs holds.
CREATE OR REPLACE FUNCTION stoker.foremost_lanes(
    line text, taking_turns boolean, limited boolean, clock bigint, most bigint
) RETURNS TABLE (spot tid, party text, bucket bigint, number bigint, major bigint, minor bigint,
    job bigint, due_at bigint, behind bigint[], used bigint)
LANGUAGE sql STABLE AS $$
    SELECT foremost.*, CASE WHEN limited THEN (
            SELECT coalesce(sum(weight), 0)::bigint FROM stoker.job
            WHERE queue = line AND key = substr(foremost.party, 2) AND counted
                AND (state = 1 OR state = 2 AND waits_for LIKE 'reply:%')) END
    FROM (
        SELECT spot, party, bucket, greatest(turn, clock) AS number, major, minor, job, due_at, behind
        FROM (
            (SELECT ctid AS spot, party, bucket, turn, major, minor, job, due_at, behind
            FROM stoker.head
            WHERE queue = line AND kind = '' AND shut_until IS NULL AND turn <= 0
            ORDER BY turn, major, minor, job LIMIT most)
            UNION ALL
            (SELECT ctid, party, bucket, turn, major, minor, job, due_at, behind FROM stoker.head
            WHERE taking_turns AND queue = line AND kind = '' AND shut_until IS NULL
                AND turn >= greatest(clock, 1)
            ORDER BY turn, major, minor, job LIMIT most)) AS open
        ORDER BY number, major, minor, job LIMIT most) AS foremost
$$;

-- How many jobs of weight one a key, or a queue, may start that holds so much; no limit is as many as
-- you like.
CREATE OR REPLACE FUNCTION stoker.places(units bigint, used bigint, most bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN units IS NULL THEN most WHEN used = 0 THEN greatest(units / 1000, 1)
        ELSE greatest(units - used, 0) / 1000 END
$$;

-- Who is next if that is nobody but heads, one of a lane: then nothing has to be sorted or counted,
-- and each lane gives way to whoever was seen behind its head; only now and then somebody looks there.
-- It is unclear if a second job of some lane might be before the head of another, and where there are
-- lanes of several ranks, for one key has several. Who has no lanes but this one has nothing to be told
-- of its turn than its new head.
CREATE OR REPLACE FUNCTION stoker.seats_of_heads(known stoker.queue, now bigint, most bigint)
RETURNS stoker.seats
LANGUAGE plpgsql VOLATILE SET enable_sort = off AS $$
DECLARE
    line text := known.name;
    told bigint := (SELECT reached FROM stoker.turn
        WHERE queue = line AND party = '!' AND known.fair);
    clock bigint := coalesce(told, 0);
    seats stoker.seats;
BEGIN
    WITH open AS MATERIALIZED (
        SELECT * FROM stoker.foremost_lanes(
            line, known.fair, known.key_units IS NOT NULL, clock, most)
    ), lane AS MATERIALIZED (
        SELECT spot, party, open.bucket, number, major, minor, job, used, head.ctid AS seat,
            head.weight, following.behind, next.id, next.due_at,
            number + CASE WHEN known.fair THEN 1000 ELSE 0 END AS next_number,
            CASE WHEN known.time_first THEN next.due_at ELSE open.bucket END AS next_major,
            CASE WHEN known.time_first THEN next.second ELSE next.due_at END AS next_minor,
            stoker.places(known.key_units, used, most) AS places
        FROM open
        CROSS JOIN LATERAL (  -- by itself: else all that is known of a lane would be kept with its lock
            SELECT ctid, weight FROM stoker.job
            WHERE id = open.job AND state = 0 AND bucket = open.bucket AND due_at = open.due_at
                AND due_at <= now
            FOR UPDATE SKIP LOCKED) AS head
        CROSS JOIN LATERAL (SELECT CASE WHEN cardinality(open.behind) > 0 THEN open.behind ELSE (
            SELECT array_agg(ARRAY[seen.due_at, seen.second, seen.id]) FROM (
                SELECT job.due_at, job.second, id FROM stoker.job
                WHERE queue = line AND state = 0 AND lane = '' AND lane <> '!'
                    AND coalesce('=' || key, '') = open.party AND bucket = open.bucket
                    AND (job.due_at, job.second, id) > (open.due_at,
                        CASE WHEN known.time_first THEN open.minor ELSE 0 END, open.job)
                ORDER BY job.due_at, job.second, id LIMIT 8) AS seen) END AS behind
            OFFSET 0) AS following
        CROSS JOIN LATERAL (SELECT following.behind[1][1] AS due_at, following.behind[1][2] AS second,
            following.behind[1][3] AS id) AS next
    ), last AS MATERIALIZED (  -- they are in order: nothing sorts them anew
        SELECT number, major, minor, job, (SELECT count(*) FROM lane) = most AS enough FROM lane
        OFFSET greatest((SELECT count(*) FROM lane) - 1, 0)
    ), doubt AS MATERIALIZED (
        SELECT bool_or(weight <> 1000 OR places < 1
                OR places > 1 AND due_at <= now AND NOT (enough
                    AND (next_number, next_major, next_minor, id)
                        > (last.number, last.major, last.minor, last.job)))
            OR min(bucket) < max(bucket) OR count(*) < (SELECT count(*) FROM open) AS unclear
        FROM last CROSS JOIN lane
    ), new AS MATERIALIZED (  -- as little as will do: an update keeps all that it is made from
        SELECT spot, next_major AS major, next_minor AS minor, id, lane.due_at, behind[2:] AS behind,
            CASE WHEN known.fair AND next_number > last.number THEN next_number ELSE 0 END AS turn
        FROM doubt, last, lane WHERE unclear IS NOT TRUE
    ), moved AS (
        UPDATE stoker.head SET turn = new.turn, major = new.major, minor = new.minor, job = new.id,
            due_at = new.due_at, behind = new.behind,
            shut_until = CASE WHEN new.due_at > now THEN new.due_at END
        FROM new WHERE head.ctid = new.spot AND new.id IS NOT NULL
    ), emptied AS (
        DELETE FROM stoker.head USING new WHERE head.ctid = new.spot AND new.id IS NULL
    )
    SELECT (SELECT unclear FROM doubt), array_agg(lane.job), array_agg(seat),
        CASE WHEN known.fair THEN coalesce(array_agg(party) FILTER (WHERE told_apart), '{}') END,
        array_agg(CASE WHEN next_number > last.number THEN next_number ELSE 0 END)
            FILTER (WHERE told_apart),
        nullif(max(last.number), told),
        array_agg(party) FILTER (WHERE full_now), array_agg(lane.major) FILTER (WHERE full_now),
        array_agg(lane.minor) FILTER (WHERE full_now), array_agg(lane.job) FILTER (WHERE full_now)
    INTO seats.unclear, seats.ids, seats.picked, seats.served, seats.reached, seats.clock,
        seats.full_keys, seats.full_majors, seats.full_minors, seats.full_jobs
    FROM last CROSS JOIN lane
    CROSS JOIN LATERAL (SELECT used + 1000 >= known.key_units AS full_now,
        id IS NULL OR cardinality(known.buckets) > 1 AS told_apart) AS key;
    RETURN seats;
END $$;

-- Who of a queue's lanes is next. It is unclear if somebody has another weight than one, a lane is
-- open that has no room, or more of a lane would have to be seen; or of another lane, where some key
-- has several and may fall back behind it with its first turn.
CREATE OR REPLACE FUNCTION stoker.seats_in_lanes(known stoker.queue, now bigint, most bigint)
RETURNS stoker.seats
LANGUAGE plpgsql STABLE SET enable_hashjoin = on AS $$
DECLARE
    line text := known.name;
    clock bigint;
    seats stoker.seats;
BEGIN
    clock := CASE WHEN known.fair THEN coalesce((SELECT reached FROM stoker.turn
        WHERE queue = line AND party = '!'), 0) ELSE 0 END;
    WITH open AS MATERIALIZED (
        SELECT * FROM stoker.foremost_lanes(
            line, known.fair, known.key_units IS NOT NULL, clock, most)
    ), lane AS (
        SELECT *, 2 + most / (SELECT count(*) FROM open) AS few,
            stoker.places(known.key_units, used, most) AS places
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
        SELECT array_agg(id) AS ids, array_agg(revision) AS revisions, NULL::tid[] AS picked,
            max(turn) AS clock
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
            OR count(*) = most AND (sum(many) < most
                OR known.fair AND count(DISTINCT party) < most)
        FROM served
    )
    SELECT * INTO seats FROM doubt, (SELECT ids, revisions, picked FROM chosen) AS jobs, moved, turned,
        (SELECT chosen.clock FROM chosen) AS moment, filled;
    RETURN seats;
END $$;

-- Write down who has been served, and which keys have no room any more; or that somebody should look.
CREATE OR REPLACE FUNCTION stoker.leave_seats(line text, seats stoker.seats) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF seats.bucket IS NOT NULL THEN
        INSERT INTO stoker.news (queue, kind, bucket, parties)
        VALUES (line, '', seats.bucket, seats.served);
        RETURN;
    END IF;
    IF seats.spots IS NOT NULL THEN
        PERFORM stoker.move_heads(seats.spots, seats.turns, seats.majors, seats.minors, seats.jobs,
            seats.dues, seats.shuts);
    END IF;
    IF seats.served IS NOT NULL AND seats.clock IS NOT NULL THEN
        seats.served := seats.served || '!'::text;
        seats.reached := seats.reached || seats.clock;
    END IF;
    IF cardinality(seats.served) > 0 THEN
        PERFORM stoker.take_turns(array_fill(line, ARRAY[cardinality(seats.served)]), seats.served,
            seats.reached);
    END IF;
    IF seats.full_keys IS NOT NULL THEN
        PERFORM stoker.shut(array_fill(line, ARRAY[cardinality(seats.full_keys)]), seats.full_keys,
            array_fill(''::text, ARRAY[cardinality(seats.full_keys)]), seats.full_majors,
            seats.full_minors, seats.full_jobs,
            array_fill(9223372036854775807, ARRAY[cardinality(seats.full_keys)]));
    END IF;
END $$;
