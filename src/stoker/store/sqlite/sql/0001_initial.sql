-- Schema 1: jobs, queues with their counters, lanes of keyed jobs, sessions, locks and notes.

CREATE TABLE queue (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    name      TEXT    NOT NULL UNIQUE,
    settings  TEXT    NOT NULL DEFAULT '{}',
    -- Exact counters, one per state; the writer of a job writes them in the same transaction.
    queued    INTEGER NOT NULL DEFAULT 0 CHECK (queued >= 0),
    running   INTEGER NOT NULL DEFAULT 0 CHECK (running >= 0),
    waiting   INTEGER NOT NULL DEFAULT 0 CHECK (waiting >= 0),
    finished  INTEGER NOT NULL DEFAULT 0 CHECK (finished >= 0),
    failed    INTEGER NOT NULL DEFAULT 0 CHECK (failed >= 0),
    cancelled INTEGER NOT NULL DEFAULT 0 CHECK (cancelled >= 0),
    used      INTEGER NOT NULL DEFAULT 0 CHECK (used >= 0),    -- units of capacity held
    laned     INTEGER NOT NULL DEFAULT 0 CHECK (laned >= 0),   -- queued jobs that have a lane
    within    TEXT,                          -- the queue whose limits hold here, too
    clock     INTEGER NOT NULL DEFAULT 0,    -- how far the key has been served that was last
    opens_at  INTEGER                        -- when a rate may let those in who were refused last
) STRICT;
CREATE INDEX queue_within ON queue (within) WHERE within IS NOT NULL;

-- State is 0 queued, 1 running, 2 waiting, 3 finished, 4 failed, 5 cancelled.
--
-- The order of a queue is (bucket, due_at, second, id): a rank-then-time queue keeps the rank in
-- bucket and 0 in second, a time-then-rank queue 0 in bucket and the rank in second. So one index
-- serves both, jobs that are not due yet are behind the due ones of their bucket, and nothing has
-- to move them when their time comes.
CREATE TABLE job (
    id           INTEGER PRIMARY KEY,
    bare         INTEGER NOT NULL DEFAULT 0,    -- 1: all facts behind key are as by default
    queue        INTEGER NOT NULL,
    name         TEXT    NOT NULL DEFAULT '',
    payload      BLOB,                          -- NULL: too long for the row, see body
    format       INTEGER NOT NULL DEFAULT 0,
    state        INTEGER NOT NULL,
    bucket       INTEGER NOT NULL,
    second       INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    policy       ANY,                 -- NULL: the plain one; a number: policy.id; else JSON: one
                                      -- that repeats, or past the thousandth
    created_at   INTEGER NOT NULL,
    scheduled_at INTEGER NOT NULL,

    weight       INTEGER NOT NULL DEFAULT 1000,
    key          TEXT,
    unique_key   TEXT,
    ref          TEXT,
    meta         TEXT,
    parent_id    INTEGER,
    open_children      INTEGER NOT NULL DEFAULT 0,
    finished_children  INTEGER NOT NULL DEFAULT 0,
    failed_children    INTEGER NOT NULL DEFAULT 0,
    cancelled_children INTEGER NOT NULL DEFAULT 0,
    waits_for    TEXT,
    attempt      INTEGER NOT NULL DEFAULT 0,
    crashes      INTEGER NOT NULL DEFAULT 0,
    revision     INTEGER NOT NULL DEFAULT 0,
    token        INTEGER,
    session      INTEGER,
    until        INTEGER,
    started_at   INTEGER,
    ended_at     INTEGER,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    undecided    INTEGER NOT NULL DEFAULT 0,
    progress     REAL    NOT NULL DEFAULT 0.0,
    result       BLOB,
    error        TEXT,
    reply        BLOB,

    lane         TEXT,   -- if queued, which lane; NULL: none

    CHECK (state BETWEEN 0 AND 5),
    CHECK ((state = 1) = (token IS NOT NULL)),
    CHECK ((state = 2) = (waits_for IS NOT NULL)),
    CHECK ((state > 2) = (ended_at IS NOT NULL)),
    CHECK (session IS NULL OR state = 1),
    CHECK (open_children >= 0 AND attempt >= 0 AND weight >= 0)
) STRICT;

CREATE TABLE body (
    job     INTEGER PRIMARY KEY,
    content BLOB NOT NULL
) STRICT;

CREATE TABLE policy (
    id   INTEGER PRIMARY KEY,
    body TEXT NOT NULL UNIQUE
) STRICT;

-- What may be claimed, in order. A job is in one of these two while QUEUED, else in neither. The id
-- comes last in every index by itself.
CREATE INDEX job_ready ON job (queue, bucket, due_at, second)
    WHERE state = 0 AND lane IS NULL;
CREATE INDEX job_laned ON job (queue, lane, bucket, due_at, second)
    WHERE state = 0 AND lane IS NOT NULL;
-- Leases by their session, then by their end.
CREATE INDEX job_running ON job (session, until) WHERE state = 1;
CREATE INDEX job_cancelling ON job (session, id) WHERE state = 1 AND cancel_requested = 1;
CREATE INDEX job_waiting ON job (waits_for, parent_id) WHERE state = 2;
CREATE INDEX job_waiting_until ON job (until) WHERE state = 2 AND until IS NOT NULL;
CREATE INDEX job_adrift ON job (id) WHERE waits_for = 'children' AND open_children = 0;
CREATE INDEX job_kept_until ON job (until) WHERE state > 2 AND until IS NOT NULL;
CREATE INDEX job_failed ON job (queue, id) WHERE state = 4;
CREATE INDEX job_repeating ON job (id) WHERE policy >= '{' AND state < 3;
CREATE INDEX job_parent ON job (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE UNIQUE INDEX job_unique ON job (unique_key) WHERE unique_key IS NOT NULL AND state < 3;
CREATE UNIQUE INDEX job_ref ON job (ref) WHERE ref IS NOT NULL;

-- The foremost queued job of each lane and bucket. A lane is called '=' and its key, or '~', the
-- length of a limited task's name, ':', the name, and, if there is a key, '=' and that; '!' is the
-- lane of weight 0. Its kind is '', '~' and the task, or '!'.
--
-- A lane is shut while its key has no room, so that a claim never looks at the jobs behind;
-- whatever happens to the key opens it again, and so does time at wakes_at. Lanes whose head is not
-- due sleep in the same way. In a fair queue turn is how far the key has been served, and at least
-- how far the queue's clock was when somebody last looked; elsewhere it is 0.
CREATE TABLE head (
    id       INTEGER PRIMARY KEY,
    queue    INTEGER NOT NULL,
    lane     TEXT    NOT NULL,
    bucket   INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    turn     INTEGER NOT NULL,
    due_at   INTEGER NOT NULL,
    second   INTEGER NOT NULL,
    job      INTEGER NOT NULL,
    shut     INTEGER NOT NULL DEFAULT 0,
    wakes_at INTEGER,
    UNIQUE (queue, lane, bucket)
) STRICT;
CREATE INDEX head_open ON head (queue, kind, bucket, turn, due_at, second, job) WHERE shut = 0;
CREATE INDEX head_asleep ON head (queue, wakes_at) WHERE wakes_at IS NOT NULL;
CREATE INDEX head_shut ON head (queue, lane) WHERE shut = 1;

-- Units of capacity held, per key ('=' and the key) and limited task ('~' and its name): of up
-- to a thousand of a queue together, as a JSON object; apart of those that came when that was full.
CREATE TABLE use_together (
    queue INTEGER PRIMARY KEY,
    units TEXT    NOT NULL
) STRICT;
CREATE TABLE use (
    queue INTEGER NOT NULL,
    meter TEXT    NOT NULL,
    used  INTEGER NOT NULL CHECK (used >= 0),
    PRIMARY KEY (queue, meter)
) STRICT, WITHOUT ROWID;

-- What has started under a rate, per meter as above, '' being the queue's own.
CREATE TABLE flow (
    queue INTEGER NOT NULL,
    meter TEXT    NOT NULL,
    state TEXT    NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (queue, meter)
) STRICT, WITHOUT ROWID;
CREATE INDEX flow_until ON flow (until);

-- How far the keys of a fair queue have been served ('=' and the key; '' for no key) that have no
-- head to tell it. Who is not beyond the queue's clock need not be here.
CREATE TABLE served (
    queue INTEGER NOT NULL,
    party TEXT    NOT NULL,
    turn  INTEGER NOT NULL,
    PRIMARY KEY (queue, party)
) STRICT, WITHOUT ROWID;
CREATE INDEX served_turn ON served (queue, turn);

CREATE TABLE session (
    id         INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    info       TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

-- Claims that found nothing and may be served by whoever brings a job.
CREATE TABLE standing (
    queue      TEXT    NOT NULL,
    since      INTEGER NOT NULL,
    session    INTEGER NOT NULL,
    token      INTEGER NOT NULL,
    visibility INTEGER,
    ear        TEXT    NOT NULL,   -- where the worker listens
    PRIMARY KEY (queue, since, session)
) STRICT, WITHOUT ROWID;

CREATE TABLE lock (
    name  TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE note (
    key      TEXT PRIMARY KEY,
    value    BLOB NOT NULL,
    until    INTEGER,
    revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The last job id given out. Ids are never used twice, also when their jobs are gone.
CREATE TABLE counter (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counter VALUES ('job', 0);
