-- What the night watch looks for: jobs that nobody looks after any more, by their ids.

-- Leases that ran out, leases of sessions that are over, and waits that are.
CREATE OR REPLACE FUNCTION stoker.lost(now bigint, most bigint) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE
SET jit = off SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY
    SELECT lost.id FROM (
        (SELECT id FROM stoker.job WHERE state = 2 AND until IS NOT NULL AND until <= now
            ORDER BY until LIMIT most)
        UNION
        (SELECT id FROM stoker.job WHERE state = 1 AND session IS NULL AND until <= now
            ORDER BY until LIMIT most)
        UNION
        (SELECT held.id FROM stoker.session CROSS JOIN LATERAL (
            SELECT id FROM stoker.job WHERE state = 1 AND job.session = session.id AND until <= now
            ORDER BY until LIMIT most) AS held
        WHERE retired_at IS NULL AND expires_at > now)
        UNION
        (SELECT held.id FROM stoker.session CROSS JOIN LATERAL (
            SELECT id FROM stoker.job WHERE state = 1 AND job.session = session.id
            ORDER BY id LIMIT most) AS held
        WHERE retired_at IS NOT NULL OR expires_at <= now)
    ) AS lost ORDER BY lost.id LIMIT most;
END $$;

-- Parents with nothing left to wait for, and children held in vain: one index probe for each
-- parent that has held children, however many it has.
CREATE OR REPLACE FUNCTION stoker.adrift(most bigint) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE
SET jit = off SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY
    WITH RECURSIVE family (parent_id) AS (
        (SELECT job.parent_id FROM stoker.job WHERE state = 2 AND waits_for = 'parent'
            ORDER BY job.parent_id LIMIT 1)
        UNION ALL
        SELECT (SELECT job.parent_id FROM stoker.job
            WHERE state = 2 AND waits_for = 'parent' AND job.parent_id > family.parent_id
            ORDER BY job.parent_id LIMIT 1)
        FROM family WHERE family.parent_id IS NOT NULL
    )
    SELECT adrift.id FROM (
        (SELECT id FROM stoker.job WHERE waits_for = 'children' AND open_children = 0
            ORDER BY id LIMIT most)
        UNION
        (SELECT child.id FROM family
            LEFT JOIN stoker.job AS parent ON parent.id = family.parent_id
            CROSS JOIN LATERAL (SELECT id FROM stoker.job WHERE state = 2 AND waits_for = 'parent'
                AND job.parent_id = family.parent_id LIMIT most) AS child
            WHERE parent.id IS NULL OR parent.state > 2 OR parent.waits_for = 'children'
            LIMIT most)
    ) AS adrift ORDER BY adrift.id LIMIT most;
END $$;

-- Ended jobs that have been kept long enough.
CREATE OR REPLACE FUNCTION stoker.forgettable(now bigint, most bigint) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE
SET jit = off SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY
    SELECT id FROM stoker.job WHERE state > 2 AND until IS NOT NULL AND until <= now
    ORDER BY until LIMIT most;
END $$;

-- Is there any of them, or a session whose time is up?
CREATE OR REPLACE FUNCTION stoker.troubled(now bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM stoker.session WHERE retired_at IS NULL AND expires_at <= now)
        OR EXISTS (SELECT FROM stoker.lost(now, 1))
        OR EXISTS (SELECT FROM stoker.adrift(1))
        OR EXISTS (SELECT FROM stoker.forgettable(now, 1));
END $$;
