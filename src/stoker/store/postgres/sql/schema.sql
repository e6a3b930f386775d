-- Statements that find out what is there, and bring it up to date.

-- name: encoding
SHOW server_encoding

-- name: there
SELECT to_regnamespace(quote_ident($1)) IS NOT NULL

-- name: tables
-- How many tables of a schema say that it is ours, and how many others there are.
SELECT count(*) FILTER (WHERE relname = 'stoker_version'),
    count(*) FILTER (WHERE relname <> 'stoker_version')
FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident($1)) AND relkind IN ('r', 'p', 'v')

-- name: lock
SELECT pg_advisory_xact_lock(hashtext('stoker schema ' || $1))

-- name: version
SELECT version FROM stoker.stoker_version

-- name: forget_version
DELETE FROM stoker.stoker_version

-- name: write_version
INSERT INTO stoker.stoker_version (version) VALUES ($1)
