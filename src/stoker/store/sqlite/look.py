"""Looking into the file without changing anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from stoker.kernel.change import Note
from stoker.kernel.job import LIVE, STATES, Job, State
from stoker.store import Adrift, Filter, Forgettable, InLine, Lost, Query, QueueView, Session
from stoker.store.files import statements
from stoker.store.sqlite.library import Connection
from stoker.store.sqlite.queue_book import SettingsReader
from stoker.store.sqlite.reader import JobReader
from stoker.store.sqlite.rows import COLUMNS, order_columns

SQL = {
    name: text.replace("-- COLUMNS", f"SELECT {COLUMNS}")
    for name, text in statements("stoker.store.sqlite.sql", "look.sql").items()
}
_BEFORE_ALL = (-(2**63), -(2**63), 0)
_FACTS = ("name", "key", "parent_id", "session", "ref", "unique_key", "waits_for")


class Looker:
    """Questions to one connection; whoever owns it sees to it that only one asks at a time."""

    def __init__(
        self, connection: Connection, read_job: JobReader, read_settings: SettingsReader
    ) -> None:
        self._connection = connection
        self._read_job = read_job
        self._read_settings = read_settings

    def get(self, ids: Iterable[int]) -> dict[int, Job]:
        rows = self._connection.execute(SQL["get"], (_json(list(ids)),))
        jobs = [self._read_job(row) for row in rows.fetchall()]
        return {job.id: job for job in jobs}

    def find(self, query: Query, now: int) -> list[Job]:
        if isinstance(query, Filter):
            return self._filter(query)
        if isinstance(query, InLine):
            ids = self._in_line(query, now)
        else:
            ids = sorted(self._ids(query, now))[: query.limit]
        jobs = self.get(ids)
        return [jobs[job_id] for job_id in ids]

    def _ids(self, query: Lost | Adrift | Forgettable, now: int) -> set[int]:
        if isinstance(query, Lost):
            return self._lost(query.limit, now)
        if isinstance(query, Adrift):
            childless = self._column("childless", query.limit)
            return childless | self._column("held_in_vain", query.limit)
        return self._column("forgettable", now, query.limit)

    def _in_line(self, query: InLine, now: int) -> list[int]:
        book = self._connection.execute(SQL["survey_some"], (_json([query.queue]),)).fetchall()
        if not book:
            return []
        queue, settings = book[0][0], self._read_settings(book[0][2])
        rank, due_at, job_id = query.after or _BEFORE_ALL
        run, limit = self._connection.execute, query.limit
        if settings.ageing:
            values = (queue, now, rank, due_at, job_id, settings.ageing, limit)
            return [row[0] for row in run(SQL["aged_in_line"], values)]
        first, second = order_columns(rank, settings)
        place = (due_at, second, job_id)
        # Of lanes there may be so many that it costs less to look at all who stand there.
        found = run(SQL["in_lanes"], (queue, now, first, *place, limit)).fetchall()
        room = limit
        for (bucket,) in run(SQL["buckets"], (queue, first)).fetchall():
            behind = place if bucket == first else _BEFORE_ALL
            due = run(SQL["in_bucket"], (queue, bucket, now, *behind, room)).fetchall()
            found, room = found + due, room - len(due)
            if not room:
                break
        return [row[-1] for row in sorted(found)[:limit]]

    def _lost(self, limit: int, now: int) -> set[int]:
        lost = self._column("overdue_waits", now, limit)
        lost |= self._column("overdue_unbound", now, limit)
        for session, alive in self._connection.execute(SQL["leaseholders"], (now,)).fetchall():
            if alive:
                lost |= self._column("overdue_of", session, now, limit)
            else:
                lost |= self._column("held_by", session, limit)
        return lost

    def _column(self, name: str, *values: Any) -> set[int]:
        return {row[0] for row in self._connection.execute(SQL[name], values)}

    def _filter(self, query: Filter) -> list[Job]:
        clauses, values = ["1"], list[Any]()
        if query.queue is not None:
            clauses.append("queue = (SELECT id FROM queue WHERE name = ?)")
            values.append(query.queue)
        if query.states:
            clauses.append(_among(query.states))
        if query.after is not None:
            clauses.append("id < ?" if query.newest_first else "id > ?")
            values.append(query.after)
        if query.session is not None:
            clauses.append("state = 1")  # no others have one; said so that their index is used
        if query.repeating:
            clauses.append("policy >= '{' AND policy ->> 'repeat' IS NOT NULL")
        if query.states and set(query.states) <= LIVE:
            clauses.append("state < 3")  # so that the indexes of living jobs are used
        for fact in _FACTS:
            wanted: Any = getattr(query, fact)
            if wanted is not None:
                clauses.append(f"{fact} = ?")
                values.append(wanted)
        direction = "DESC" if query.newest_first else "ASC"
        sql = (
            f"SELECT {COLUMNS} FROM job WHERE {' AND '.join(clauses)} "  # noqa: S608
            f"ORDER BY id {direction} LIMIT ?"
        )
        rows = self._connection.execute(sql, (*values, query.limit)).fetchall()
        return [self._read_job(row) for row in rows]

    def survey(self, names: Sequence[str] | None) -> list[QueueView]:
        if names is None:
            rows = self._connection.execute(SQL["survey"])
        else:
            rows = self._connection.execute(SQL["survey_some"], (_json(list(names)),))
        return [
            QueueView(
                row[1],
                self._read_settings(row[2]),
                dict(zip(STATES, row[3:9], strict=True)),
                row[9],
            )
            for row in rows
        ]

    def names(self, pattern: str) -> list[str]:
        return [row[0] for row in self._connection.execute(SQL["names"], (pattern,))]

    def next_due(self, queues: Sequence[str], after: int) -> int | None:
        book = "SELECT id FROM queue WHERE name = ? AND queued > 0"
        ids = [self._connection.execute(book, (name,)).get for name in queues]
        known = [queue for queue in ids if queue is not None]
        dues = [self._connection.execute(SQL["next_due"], (queue, after)).get for queue in known]
        return min((due for due in dues if due is not None), default=None)

    def flows(self, queue: str, meters: Sequence[str]) -> dict[str, str]:
        rows = self._connection.execute(SQL["flows"], (queue, _json(list(meters))))
        return {row[0]: row[1] for row in rows}

    def notes(self, keys: Sequence[str] | None, now: int) -> dict[str, Note]:
        run = self._connection.execute
        if keys is None:
            rows = run(SQL["all_notes"], (now,))
        else:
            rows = run(SQL["notes"], (_json(list(keys)), now))
        return {row[0]: Note(*row) for row in rows}

    def version(self) -> int:
        """A number that another one's commit changes, and nothing else."""
        return int(self._connection.execute("PRAGMA data_version").get)

    def sessions(self) -> list[Session]:
        return [Session(*row) for row in self._connection.execute(SQL["sessions"])]

    def troubled(self, now: int) -> bool:
        if self._connection.execute(SQL["dead_session"], (now,)).get is not None:
            return True
        return any(self._ids(kind(limit=1), now) for kind in (Lost, Adrift, Forgettable))


def _among(states: tuple[State, ...]) -> str:
    """One state is said with "=", by which alone SQLite finds the indexes of that state."""
    numbers = [str(int(state)) for state in states]
    return f"state = {numbers[0]}" if len(numbers) == 1 else f"state IN ({', '.join(numbers)})"


def _json(values: list[Any]) -> str:
    return msgspec.json.encode(values).decode()
