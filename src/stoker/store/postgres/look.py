"""Looking into the tables without changing anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stoker.kernel.change import Note
from stoker.kernel.glob import glob_matches
from stoker.kernel.job import LIVE, STATES, Job
from stoker.store import Adrift, Filter, InLine, Lost, Query, QueueView, Session
from stoker.store.filtering import FACTS
from stoker.store.postgres.arrays import Bigints, Texts
from stoker.store.postgres.claim import mark_arrays
from stoker.store.postgres.driver import Connection
from stoker.store.postgres.marks import Mark
from stoker.store.postgres.rows import COLUMNS, Row, job_of, settings_of
from stoker.store.postgres.schema import named, within
from stoker.store.postgres.texts import read, written

_BEFORE_ALL = (-(2**63), -(2**63), 0)


class Looker:
    """Questions to one connection."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._sql = named(schema, "look.sql")

    def _rows(self, name: str, *values: Any) -> list[Row]:
        return self._connection.execute(self._sql[name], values).fetchall()

    def get(self, ids: Iterable[int]) -> dict[int, Job]:
        statement = self._sql["get"].replace("-- COLUMNS", f"SELECT {COLUMNS}")
        rows = self._connection.execute(statement, [Bigints.of(list(ids))]).fetchall()
        return {job.id: job for job in map(job_of, rows)}

    def find(self, query: Query, now: int) -> list[Job]:
        if isinstance(query, Filter):
            return self._filter(query)
        if isinstance(query, InLine):
            return self._in_line(query, now)
        if isinstance(query, Lost):
            return self._chosen("lost", now, query.limit)
        if isinstance(query, Adrift):
            return self._chosen("adrift", query.limit)
        return self._chosen("forgettable", now, query.limit)

    def _chosen(self, name: str, *values: Any) -> list[Job]:
        """Jobs by a statement that gives their ids: chosen and read in one and the same moment."""
        chosen = f"WHERE id = ANY (ARRAY({self._sql[name]})) ORDER BY id"
        sql = within(self._schema, f"SELECT {COLUMNS} FROM stoker.job {chosen}")  # noqa: S608
        return [job_of(row) for row in self._connection.execute(sql, values)]

    def _filter(self, query: Filter) -> list[Job]:
        clauses, values = ["true"], list[Any]()
        if query.states:
            clauses.append(f"state IN ({', '.join(str(int(state)) for state in query.states)})")
        if query.session is not None:
            clauses.append("state = 1")  # no others have one; said so that their index is used
        if query.repeating:
            clauses.append("repeats")
        if query.states and set(query.states) <= LIVE:
            clauses.append("state < 3")  # so that the indexes of living jobs are used
        if query.after is not None:
            values.append(query.after)
            clauses.append(f"id {'<' if query.newest_first else '>'} $1")
        for fact in FACTS:
            wanted: Any = getattr(query, fact)
            if wanted is not None:
                values.append(written(wanted) if isinstance(wanted, str) else wanted)
                clauses.append(f"{fact} = ${len(values)}")
        direction = "DESC" if query.newest_first else "ASC"
        sql = (
            f"SELECT {COLUMNS} FROM stoker.job WHERE {' AND '.join(clauses)} "  # noqa: S608
            f"ORDER BY id {direction} LIMIT ${len(values) + 1}"
        )
        values.append(query.limit)
        rows = self._connection.execute(within(self._schema, sql), values).fetchall()
        return [job_of(row) for row in rows]

    def _in_line(self, query: InLine, now: int) -> list[Job]:
        queue = written(query.queue)
        # A queue that was never told anything may have no row yet.
        time_first, ageing = (self._rows("order", queue) or [(False, None)])[0]
        rank, due_at, job_id = query.after or _BEFORE_ALL
        name, place = "in_line", (0, due_at, rank) if time_first else (rank, due_at, 0)
        if ageing is not None:
            name, place = "aged_in_line", (rank, due_at, ageing)
        values = (queue, now, *place, job_id, query.limit)
        statement = self._sql[name].replace("-- COLUMNS", f"SELECT {COLUMNS}")
        return [job_of(row) for row in self._connection.execute(statement, values)]

    def survey(self, names: Sequence[str] | None) -> list[QueueView]:
        rows = self._rows("survey", None if names is None else Texts.of(list(names)))
        return [
            QueueView(
                read(name),
                settings_of(settings or "{}"),
                dict(zip(STATES, counts[:-1], strict=True)),
                counts[-1],
            )
            for name, settings, *counts in rows
        ]

    def names(self, pattern: str) -> list[str]:
        queues = [read(row[0]) for row in self._rows("queued")]
        return [name for name in queues if glob_matches(pattern, name)]

    def next_due(self, queues: Sequence[str], after: int, marks: Sequence[Mark]) -> int | None:
        marked = mark_arrays(marks)[:2]
        ((due_at,),) = self._rows("next_due", Texts.of(list(queues)), after, *marked)
        return due_at if isinstance(due_at, int) else None

    def flows(self, queue: str, meters: Sequence[str]) -> dict[str, str]:
        rows = self._rows("flows", written(queue), Texts.of(list(meters)))
        return {read(meter): state for meter, state in rows}

    def notes(self, keys: Sequence[str] | None, now: int) -> dict[str, Note]:
        if keys is None:
            rows = self._rows("all_notes", now)
        else:
            rows = self._rows("notes", Texts.of(list(keys)), now)
        notes = (Note(read(key), *rest) for key, *rest in rows)
        return {note.key: note for note in notes}

    def sessions(self) -> list[Session]:
        return [
            Session(number, read(name), read(info), *rest)
            for number, name, info, *rest in self._rows("sessions")
        ]
