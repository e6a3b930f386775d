"""What SQLite keeps besides the jobs must follow from the jobs: counters, lanes, keys, bodies."""

from __future__ import annotations

from stoker.store.sqlite.driver import File, Sync
from stoker.store.sqlite.library import Library
from stoker.store.sqlite.rows import INLINE_BYTES
from stoker.store.sqlite.with_apsw import APSW

_LOADED = "CASE WHEN state = 1 OR (state = 2 AND waits_for LIKE 'reply:%') THEN weight ELSE 0 END"

_COUNTS_KEPT = "SELECT id, queued, running, waiting, finished, failed, cancelled FROM queue"
_COUNTS = """
SELECT queue.id, total(state = 0), total(state = 1), total(state = 2), total(state = 3),
    total(state = 4), total(state = 5)
FROM queue LEFT JOIN job ON job.queue = queue.id GROUP BY queue.id
"""

_USE_KEPT = "SELECT id, laned, used FROM queue"
_USE = f"""
SELECT queue.id, total(state = 0 AND lane IS NOT NULL), total({_LOADED})
FROM queue LEFT JOIN job ON job.queue = queue.id GROUP BY queue.id
"""  # noqa: S608

_LIMITED = """EXISTS (
    SELECT 1 FROM queue AS limited, json_each(limited.settings -> ?) AS task
    WHERE limited.id = job.queue AND task.key = job.name)""".replace("?", "'$.tasks'")
_LIMITED = f"({_LIMITED} OR {_LIMITED.replace('$.tasks', '$.task_rates')})"

_SET = (
    "(SELECT settings <> '{}' AND EXISTS (SELECT 1 FROM json_each(settings) WHERE json_each.key IN"
    " (?)) FROM queue WHERE queue.id = job.queue)"
)
_OF_KEYS = "'key_capacity', 'keys', 'shares', 'key_rate', 'key_rates'"
_BY_KEY = _SET.replace("?", _OF_KEYS)
_CAREFUL = _SET.replace(
    "?", f"{_OF_KEYS}, 'capacity', 'tasks', 'rate', 'task_rates', 'within', 'fair', 'ageing'"
)

_KEYS_KEPT = """
SELECT queue, meter, used FROM use
UNION ALL
SELECT queue, key, value FROM use_together, json_each(units)
"""
_KEYS = f"""
SELECT queue, '=' || key, total({_LOADED}) FROM job WHERE key IS NOT NULL AND {_BY_KEY}
GROUP BY queue, key HAVING total({_LOADED}) > 0
UNION ALL
SELECT queue, '~' || name, total({_LOADED}) FROM job WHERE {_LIMITED}
GROUP BY queue, name HAVING total({_LOADED}) > 0
"""  # noqa: S608

_HEADS_KEPT = "SELECT queue, lane, bucket, due_at, second, job FROM head"
_HEADS = """
SELECT queue, lane, bucket, due_at, second, id FROM (
    SELECT *, row_number() OVER (
        PARTITION BY queue, lane, bucket ORDER BY due_at, second, id) AS place
    FROM job WHERE state = 0 AND lane IS NOT NULL)
WHERE place = 1
"""

_LANES_KEPT = "SELECT id, lane FROM job WHERE state = 0"
_LANES = f"""
SELECT id, CASE WHEN NOT {_CAREFUL} THEN NULL WHEN weight = 0 THEN '!'
    WHEN {_LIMITED} THEN '~' || length(name) || ':' || name || coalesce('=' || key, '')
    WHEN key IS NOT NULL THEN '=' || key END
FROM job WHERE state = 0
"""  # noqa: S608

_BODIES_KEPT = "SELECT job FROM body"
_BODIES = "SELECT id FROM job WHERE payload IS NULL"

_PAIRS = (
    (_COUNTS_KEPT, _COUNTS),
    (_USE_KEPT, _USE),
    (_KEYS_KEPT, _KEYS),
    (_HEADS_KEPT, _HEADS),
    (_LANES_KEPT, _LANES),
    (_BODIES_KEPT, _BODIES),
)


def assert_books_balance(path: str, library: Library = APSW) -> None:
    """Recount everything that is counted."""
    connection = File(path, library, Sync.NORMAL, busy_timeout=10).connect(read_only=True)
    try:
        for kept, recounted in _PAIRS:
            assert set(connection.execute(kept)) == set(connection.execute(recounted)), kept
        longest = connection.execute("SELECT max(length(payload)) FROM job").get
        assert (longest or 0) <= INLINE_BYTES
        shortest = connection.execute("SELECT min(length(content)) FROM body").get
        assert shortest is None or shortest > INLINE_BYTES
        assert connection.execute("PRAGMA integrity_check(1)").get == "ok"
    finally:
        connection.close()
