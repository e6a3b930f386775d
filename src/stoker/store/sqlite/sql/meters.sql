-- Statements about meters: what is held, and rates.

-- name: use
SELECT used FROM use WHERE queue = ?1 AND meter = ?2

-- name: any_use
SELECT 1 FROM use WHERE queue = ?1 LIMIT 1

-- name: together
SELECT units FROM use_together WHERE queue = ?1

-- name: write_together
INSERT OR REPLACE INTO use_together (queue, units) VALUES (?1, ?2)

-- name: drop_together
DELETE FROM use_together WHERE queue = ?1

-- name: write_use
INSERT OR REPLACE INTO use (queue, meter, used) VALUES (?, ?, ?)

-- name: drop_use
DELETE FROM use WHERE (queue, meter) IN (VALUES (?, ?))

-- name: drop_all_use
DELETE FROM use WHERE queue = ?1

-- name: count_use
INSERT INTO use (queue, meter, used)
WITH held AS MATERIALIZED (
    SELECT key, name, weight FROM job WHERE queue = ?1 AND weight > 0 AND id IN (
        SELECT id FROM job WHERE state = 1
        UNION ALL
        SELECT id FROM job WHERE state = 2 AND waits_for GLOB 'reply:*')
)
SELECT ?1, '=' || key, sum(weight) FROM held WHERE ?3 AND key IS NOT NULL GROUP BY key
UNION ALL
SELECT ?1, '~' || name, sum(weight) FROM held
WHERE name IN (SELECT value FROM json_each(?2)) GROUP BY name

-- name: flow
SELECT state FROM flow WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND meter = ?2

-- name: write_flow
INSERT INTO flow (queue, meter, state, until)
SELECT id, ?2, ?3, ?4 FROM queue WHERE name = ?1
ON CONFLICT DO UPDATE SET state = excluded.state, until = excluded.until

-- name: write_opening
UPDATE queue SET opens_at = ?2 WHERE id = ?1
