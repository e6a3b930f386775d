-- Schema 1: jobs, queues with their counts, lanes, turns and rates, sessions, locks and notes.
--
-- `stoker` stands for the schema that was chosen. Times are microseconds since 1970, in UTC.

CREATE TABLE stoker.stoker_version (
    version integer NOT NULL
);

-- Settings of queues, and the counts of their jobs as far as `delta` was folded into them.
CREATE TABLE stoker.queue (
    name       text COLLATE "C" PRIMARY KEY,
    settings   text    NOT NULL DEFAULT '{}',
    -- What statements have to know of the settings.
    paused     boolean NOT NULL DEFAULT false,
    limited    boolean NOT NULL DEFAULT false,
    eases      boolean NOT NULL DEFAULT false, -- a job that ends may make room for one that waits
    time_first boolean NOT NULL DEFAULT false,
    kinds      text[]  NOT NULL DEFAULT '{""}',  -- of lanes: '', and '~' and each limited task
    fair       boolean NOT NULL DEFAULT false,
    ageing     bigint,
    within     text COLLATE "C",             -- the queue whose limits hold here, too
    counts_keys boolean NOT NULL DEFAULT false,
    rates_keys boolean NOT NULL DEFAULT false,
    lanewise   boolean NOT NULL DEFAULT false, -- nothing decides here but places and a bucket of the
                                             -- queue, or places of keys and their turns
    own_units  bigint,                       -- what the queue may hold, where nothing of keys decides
    fill_step  bigint,                       -- how long its bucket takes to be filled for one job,
    fill_whole bigint,                       -- and from empty; where nothing of keys decides
    fill_period bigint,                      -- what has started further ahead counts for nothing
    key_units  bigint,                       -- what one key may hold, where it is the same for all
    opens_at   bigint,                       -- when a rate may let those in who were refused last
    latest_due bigint  NOT NULL DEFAULT 0,   -- of what claims have come upon in lanes
    buckets    bigint[] NOT NULL DEFAULT '{}', -- of its lanes; two stand for many
    queued     bigint  NOT NULL DEFAULT 0,
    running    bigint  NOT NULL DEFAULT 0,
    waiting    bigint  NOT NULL DEFAULT 0,
    finished   bigint  NOT NULL DEFAULT 0,
    failed     bigint  NOT NULL DEFAULT 0,
    cancelled  bigint  NOT NULL DEFAULT 0,
    used       bigint  NOT NULL DEFAULT 0    -- units of capacity held
) WITH (fillfactor = 50);
CREATE INDEX queue_within ON stoker.queue (within) WHERE within IS NOT NULL;

-- What transactions did to the counts: one row a queue and transaction, so that no two of them
-- ever wait for one another's counters.
CREATE TABLE stoker.delta (
    queue      text COLLATE "C" NOT NULL,
    queued     bigint NOT NULL DEFAULT 0,
    running    bigint NOT NULL DEFAULT 0,
    waiting    bigint NOT NULL DEFAULT 0,
    finished   bigint NOT NULL DEFAULT 0,
    failed     bigint NOT NULL DEFAULT 0,
    cancelled  bigint NOT NULL DEFAULT 0,
    used       bigint NOT NULL DEFAULT 0
);

CREATE SEQUENCE stoker.job_id;

-- State is 0 queued, 1 running, 2 waiting, 3 finished, 4 failed, 5 cancelled.
--
-- The order of a queue is (bucket, due_at, second, id): a rank-then-time queue keeps the rank in
-- bucket and 0 in second, a time-then-rank queue 0 in bucket and the rank in second. So one index
-- serves both, jobs that are not due yet are behind the due ones of their bucket, and nothing has
-- to move them when their time comes.
CREATE TABLE stoker.job (
    -- First what is never NULL and has a fixed length: the server finds it without searching.
    -- Every job that starts gets a second entry beside its first: where there is no room for it the
    -- server would split one page after the other. More room, for the third entry of a job that is kept,
    -- makes deep queues slower: the index has to stay in memory.
    id            bigint   PRIMARY KEY WITH (fillfactor = 50),
    state         smallint NOT NULL DEFAULT 0,
    format        smallint NOT NULL DEFAULT 0,
    attempt       integer  NOT NULL DEFAULT 0,
    bucket        bigint   NOT NULL,
    due_at        bigint   NOT NULL,
    second        bigint   NOT NULL,
    weight        bigint   NOT NULL DEFAULT 1000,
    revision      bigint   NOT NULL DEFAULT 0,
    created_at    bigint   NOT NULL,
    scheduled_at  bigint   NOT NULL,
    progress      double precision NOT NULL DEFAULT 0,
    crashes       integer  NOT NULL DEFAULT 0,
    open_children      integer NOT NULL DEFAULT 0,
    finished_children  integer NOT NULL DEFAULT 0,
    failed_children    integer NOT NULL DEFAULT 0,
    cancelled_children integer NOT NULL DEFAULT 0,
    cancel_requested boolean NOT NULL DEFAULT false,
    undecided     boolean NOT NULL DEFAULT false,
    stays         boolean NOT NULL DEFAULT false, -- by its policy: no lease of it ends by itself
    repeats       boolean NOT NULL DEFAULT false,
    counted       boolean NOT NULL DEFAULT false, -- what it holds counts for its key
    joined        boolean NOT NULL DEFAULT false, -- it stands in line with those it came with: see `run`
    timeout       bigint,                        -- of its policy: how long a try may last
    token         bigint,
    session       bigint,
    until         bigint,
    started_at    bigint,
    ended_at      bigint,
    parent_id     bigint,
    queue         text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    payload       bytea NOT NULL,
    policy        text COLLATE "C",              -- NULL: the plain one
    key           text COLLATE "C",
    lane          text COLLATE "C",              -- its kind, in limited queues; NULL: none
    unique_key    text COLLATE "C",
    ref           text COLLATE "C",
    waits_for     text COLLATE "C",
    meta          text COLLATE "C",
    result        bytea,
    error         text COLLATE "C",
    reply         bytea
) WITH (
    -- Claims go by marks, so dead rows cost little; still they should not heap up. With pauses, on a
    -- busy server, they came faster than they were cleared away.
    autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_threshold = 5000, autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- No job is ever in this index: it is what a CHECK would say. A CHECK is kept as text, and read anew by
-- each statement that writes to a job, which takes half as long as writing a job does; what an index is
-- about, the server remembers.
CREATE FUNCTION stoker.refuse(job bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RAISE EXCEPTION 'the facts of job % contradict its state', job
        USING ERRCODE = 'check_violation', CONSTRAINT = 'job_contradicting';
END $$;
CREATE INDEX job_contradicting ON stoker.job (stoker.refuse(id)) WHERE NOT (
    state BETWEEN 0 AND 5
    AND (state = 1) = (token IS NOT NULL)
    AND (state = 2) = (waits_for IS NOT NULL)
    AND (state > 2) = (ended_at IS NOT NULL)
    AND (session IS NULL OR state = 1)
    AND (NOT joined OR state = 0 AND lane IS NULL)
    AND open_children >= 0 AND attempt >= 0 AND weight >= 0);

-- What may be claimed, in order. A job is in one of these three or in a run while QUEUED, else in none: a
-- lane is that of a key ('' for no key), and of a task if that has a limit; '!' are those of weight 0.
CREATE INDEX job_ready ON stoker.job (queue, bucket, due_at, second, id)
    WHERE state = 0 AND lane IS NULL AND NOT joined;
CREATE INDEX job_free ON stoker.job (queue, bucket, due_at, second, id)
    WHERE state = 0 AND lane = '!';
CREATE INDEX job_laned ON stoker.job
    (queue, lane, (coalesce('=' || key, '')), bucket, due_at, second, id)
    WHERE state = 0 AND lane <> '!';
-- The jobs of keys with limits in the order of the queue: while no key is full, its lanes are nobody's
-- concern.
CREATE INDEX job_counted ON stoker.job (queue, bucket, due_at, second, id)
    WHERE state = 0 AND lane = '' AND counted;
-- Leases by their session, then by their end.
CREATE INDEX job_running ON stoker.job (session, until) WHERE state = 1;
CREATE INDEX job_cancelling ON stoker.job (session, id) WHERE state = 1 AND cancel_requested;
-- Who holds a key's capacity, and who that of a task which has a limit.
-- Entries of one key that are gone lie between those of others: gathering them into one, as the
-- server would do when a page is full, costs more than all the rest.
CREATE INDEX job_holding ON stoker.job (queue, key) WITH (deduplicate_items = off)
    WHERE counted AND (state = 1 OR state = 2 AND waits_for LIKE 'reply:%');
CREATE INDEX job_holding_task ON stoker.job (queue, lane)
    WHERE lane >= '~' AND (state = 1 OR state = 2 AND waits_for LIKE 'reply:%');
CREATE INDEX job_waiting ON stoker.job (waits_for, parent_id) WHERE state = 2;
CREATE INDEX job_waiting_until ON stoker.job (until) WHERE state = 2 AND until IS NOT NULL;
CREATE INDEX job_adrift ON stoker.job (id) WHERE waits_for = 'children' AND open_children = 0;
CREATE INDEX job_kept_until ON stoker.job (until) WHERE state > 2 AND until IS NOT NULL;
CREATE INDEX job_failed ON stoker.job (queue, id) WHERE state = 4;
CREATE INDEX job_repeating ON stoker.job (id) WHERE repeats AND state < 3;
CREATE INDEX job_parent ON stoker.job (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE UNIQUE INDEX job_unique ON stoker.job (unique_key)
    WHERE unique_key IS NOT NULL AND state < 3;
CREATE UNIQUE INDEX job_ref ON stoker.job (ref) WHERE ref IS NOT NULL;

-- Jobs that came together to a queue without limits, with the same rank and due time, stand in line as
-- one, which costs a third less than an entry for each. All of them have ids from the first to the last;
-- who is there still is `joined`. Whoever comes back, or is changed, stands by itself from then on.
CREATE TABLE stoker.run (
    queue  text COLLATE "C" NOT NULL,
    bucket bigint NOT NULL,
    due_at bigint NOT NULL,
    first  bigint NOT NULL,
    last   bigint NOT NULL,
    PRIMARY KEY (queue, bucket, due_at, last)
) WITH (fillfactor = 50);

-- The foremost queued job of each lane and bucket of a limited queue. A lane belongs to a party,
-- '=' and a key or '' for no key, and is of a kind, '~' and a task that has a limit or ''.
--
-- (major, minor, job) is the place in the queue's order, whatever that is; in fair queues `turn`
-- comes before it: how far the party has been served, or 0 if nobody is further back. A lane is
-- shut while its key has no room, or nothing is due in it, so that a claim looks neither at it nor
-- at the jobs behind; the greatest number means until something happens to the party. Only whoever
-- has locked the queue's row writes here; all others leave word in `news` and `room`.
CREATE TABLE stoker.head (
    queue  text COLLATE "C" NOT NULL,
    party  text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    bucket bigint NOT NULL,
    turn   bigint NOT NULL,
    major  bigint NOT NULL,
    minor  bigint NOT NULL,
    job    bigint NOT NULL,
    due_at bigint NOT NULL,
    shut_until bigint,
    -- Who comes next in the lane, as far as somebody has looked: due_at, second and id of each. It holds
    -- until there is news of the lane.
    behind bigint[],
    -- Each job that starts leaves another entry of its lane here: as with `job_holding`, gathering
    -- them into one would cost more than it saves.
    PRIMARY KEY (queue, party, kind, bucket) WITH (deduplicate_items = off)
);
CREATE INDEX head_open ON stoker.head (queue, kind, turn, major, minor, job)
    WHERE shut_until IS NULL;
CREATE INDEX head_shut ON stoker.head (queue, party) WHERE shut_until IS NOT NULL;
CREATE INDEX head_full ON stoker.head (queue) WHERE shut_until = 9223372036854775807;
CREATE INDEX head_asleep ON stoker.head (queue, shut_until)
    WHERE shut_until < 9223372036854775807;

-- Somebody came to the lanes of these parties or left them: look at them again. One row does for all
-- lanes of a kind and bucket of which a transaction has to tell.
CREATE TABLE stoker.news (
    queue   text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    bucket  bigint NOT NULL,
    parties text[] COLLATE "C" NOT NULL,
    -- So that nobody has to read them to know how many there are.
    words   integer GENERATED ALWAYS AS (cardinality(parties)) STORED
);

-- Some parties hold less than before, or more: one row a queue and transaction. Those that were read
-- are skipped by the index until somebody clears them away.
CREATE TABLE stoker.room (
    queue   text COLLATE "C" NOT NULL,
    parties text[] COLLATE "C" NOT NULL
);
CREATE INDEX room_queue ON stoker.room (queue);

-- How far the parties of fair queues have been served that have no heads, as far as it counts; the
-- party '!' is the queue's clock: the party that was served last, before it was served.
CREATE TABLE stoker.turn (
    queue   text COLLATE "C" NOT NULL,
    party   text COLLATE "C" NOT NULL,
    reached bigint NOT NULL,
    PRIMARY KEY (queue, party)
) WITH (fillfactor = 50);

-- What has started under a rate, by meter: '', '=' and a key, '~' and a task. It counts for nothing
-- after a moment.
CREATE TABLE stoker.flow (
    queue text COLLATE "C" NOT NULL,
    meter text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (queue, meter)
) WITH (fillfactor = 50);

-- A retired session is kept until nothing refers to it, so that what it held is found.
CREATE TABLE stoker.session (
    id         bigint  PRIMARY KEY,
    name       text    NOT NULL,
    info       text    NOT NULL,
    started_at bigint  NOT NULL,
    expires_at bigint  NOT NULL,
    retired_at bigint
) WITH (fillfactor = 50);

-- Claims that found nothing and may be served by whoever brings a job: on which channel their worker
-- is told, and the marks by which the queue was searched. When one was served: by which call, with
-- which job and when, until the worker was told. A crash may take them: they are hints.
CREATE UNLOGGED TABLE stoker.standing (
    queue      text COLLATE "C" NOT NULL,
    session    bigint NOT NULL,
    token      bigint NOT NULL,
    visibility bigint,
    since      bigint NOT NULL,
    channel    text   NOT NULL,
    buckets    bigint[] NOT NULL,
    dues       bigint[] NOT NULL,
    seconds    bigint[] NOT NULL,
    jobs       bigint[] NOT NULL,
    served     bigint,
    job        bigint,
    started_at bigint,
    PRIMARY KEY (queue, session)
) WITH (fillfactor = 50);

CREATE TABLE stoker.lock (
    name  text COLLATE "C" PRIMARY KEY,
    owner text   NOT NULL,
    until bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE stoker.note (
    key      text COLLATE "C" PRIMARY KEY,
    value    bytea  NOT NULL,
    until    bigint,
    revision bigint NOT NULL
);

ALTER TABLE stoker.queue SET (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);
ALTER TABLE stoker.delta SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
ALTER TABLE stoker.run SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
ALTER TABLE stoker.head SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
ALTER TABLE stoker.news SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
ALTER TABLE stoker.room SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
ALTER TABLE stoker.standing SET (autovacuum_vacuum_threshold = 500);
ALTER TABLE stoker.turn SET (autovacuum_vacuum_threshold = 1000);
ALTER TABLE stoker.flow SET (autovacuum_vacuum_threshold = 1000);

-- A job that has just been claimed: what its worker does not know by itself. Facts that few jobs have
-- are in `others`, as JSON: NULL if it has none of them.
CREATE TYPE stoker.begun AS (
    queue text, name text, payload bytea, format smallint, id bigint, rank bigint, due_at bigint,
    policy text, created_at bigint, scheduled_at bigint, weight bigint, key text, attempt integer,
    revision bigint, until bigint, others text
);

-- How far a bucket has been claimed.
CREATE TYPE stoker.mark AS (bucket bigint, due_at bigint, second bigint, job bigint);

-- A job as a walk sees it: its queue, the kind of its lane, what has to be known to choose it, and if
-- it is in a lane that was looked at: how many of the lane were asked for, the turn, the place and the
-- row of its head, what its key holds and what has started of it.
CREATE TYPE stoker.sight AS (
    queue text, kind text, id bigint, revision bigint, bucket bigint, due_at bigint, rank bigint,
    name text, key text, weight bigint, few bigint, turn bigint, major bigint, minor bigint,
    head bigint, spot tid, used bigint, flow text
);

-- Who of a queue's lanes may start: the jobs in order, and their rows if they were locked; which heads
-- give way to whom; whom that has served, how far, and where the clock is now; which keys have no room
-- behind which place; and if heads were not looked at, the bucket of the lanes to be looked at again, and
-- in which order the jobs were taken. Where no lane is concerned nothing is known but rows and order.
CREATE TYPE stoker.seats AS (
    unclear boolean, ids bigint[], revisions bigint[], picked tid[],
    spots tid[], turns bigint[], majors bigint[], minors bigint[], jobs bigint[], dues bigint[],
    shuts bigint[],
    served text[], reached bigint[], clock bigint,
    full_keys text[], full_majors bigint[], full_minors bigint[], full_jobs bigint[],
    bucket bigint, in_line text, began bigint
);
