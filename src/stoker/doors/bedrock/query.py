"""Query: read-only SQL over a table `jobs`, on every engine.

The table is virtual: it shows a picture of the jobs taken for the question, in a SQLite of its own
that has no file. So nothing that is asked can change a job, whatever it says; all the same, nothing
but SELECT is let through. Jobs, rows, bytes and seconds are limited.

`SELECT *` gives the columns that are not hidden; the others are there for whoever names them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import apsw
import msgspec

from stoker.desk import Desk
from stoker.doors.bedrock import words
from stoker.doors.bedrock.protocol import Reply, Request
from stoker.doors.bedrock.refusals import BAD_QUERY, MISSING_QUERY, NO_SEMICOLON
from stoker.kernel.job import Job
from stoker.store import Filter
from stoker.store.paging import pages

SHOWN = ("created", "jobID", "state", "name", "nextRun", "lastRun", "repeat", "data")
HIDDEN = ("priority", "parentJobID", "retryAfter", "timeout", "expires", "attempt")
COLUMNS = SHOWN + HIDDEN
_ID, _NAME = COLUMNS.index("jobID"), COLUMNS.index("name")
_NUMBERS = frozenset({"jobID", "priority", "parentJobID", "timeout", "attempt"})

_ALLOWED = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE})
_CLOSED = ("sqlite_", "pragma_", "dbstat")  # SQLite's own tables; there are none but `jobs` else
_WHOLE = re.compile(r"[0-9]{1,18}")
_PAGE = 1000
_STEPS = 1000
"""So many steps of SQLite's between two looks at clock and memory."""

Row = tuple[Any, ...]


def _declared(name: str) -> str:
    return f"{name} {'INTEGER' if name in _NUMBERS else 'TEXT'}{' HIDDEN' * (name in HIDDEN)}"


_TABLE = f"CREATE TABLE jobs({', '.join(map(_declared, COLUMNS))})"


class Limits(NamedTuple):
    """How much one question may cost."""

    jobs: int = 100_000
    job_bytes: int = 64 * 2**20
    rows: int = 10_000
    row_bytes: int = 16 * 2**20
    value_bytes: int = 2**20
    memory: int = 64 * 2**20
    seconds: float = 5.0


class TooMuch(Exception):
    """A question that costs more than it may."""


def ask(desk: Desk, request: Request, limits: Limits = Limits()) -> Reply:  # noqa: B008
    """Answer one request."""
    sql = (request.headers.get("query") or request.rest).strip()
    if not sql:
        return Reply(MISSING_QUERY)
    if not sql.endswith(";"):
        return Reply(NO_SEMICOLON)
    try:
        names, rows = _Question(desk, limits).answer(sql)
    except (apsw.Error, TooMuch, ValueError) as error:
        said = str(error) or type(error).__name__
        return Reply(BAD_QUERY, said.encode("utf-8", "replace"), {"error": said})
    return Reply(body=_written(request, names, rows))


def _written(request: Request, names: Sequence[str], rows: list[Row]) -> bytes:
    shown = [[_value(value) for value in row] for row in rows]
    if request.headers.get("format", "").lower() == "json":
        return msgspec.json.encode({"headers": names, "rows": shown})
    if request.headers.get("readdbflags", "") == "-json":
        return msgspec.json.encode([dict(zip(names, row, strict=True)) for row in shown])
    return msgspec.json.encode(shown)


def _value(value: Any) -> Any:
    """JSON in a text appears as what it is."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return msgspec.json.decode(value, type=msgspec.Raw)
        except (msgspec.MsgspecError, RecursionError):
            return value
    return value


class _Question:
    """One question, from its connection to its rows."""

    def __init__(self, desk: Desk, limits: Limits) -> None:
        self._limits = limits
        self._deadline = time.monotonic() + limits.seconds
        self._memory = apsw.memory_used() + limits.memory
        self._jobs = _Jobs(desk, limits, self._deadline)
        self._statements = 0
        self._names: list[str] = []

    def answer(self, sql: str) -> tuple[list[str], list[Row]]:
        """The names of the columns, and the rows."""
        connection = apsw.Connection(":memory:")
        try:
            connection.execute("PRAGMA temp_store = MEMORY")  # where it is counted
            connection.create_module("stoker_jobs", cast("Any", _Module(self._jobs)))
            connection.execute("CREATE VIRTUAL TABLE jobs USING stoker_jobs")
            for kind, most in self._bounds():
                connection.limit(kind, most)
            connection.set_progress_handler(self._is_over, _STEPS)
            connection.authorizer = _authorised
            connection.exec_trace = self._is_the_only_select
            return self._read(connection, sql)
        finally:
            connection.close(True)

    def _bounds(self) -> Iterable[tuple[int, int]]:
        return (
            (apsw.SQLITE_LIMIT_LENGTH, self._limits.value_bytes),
            (apsw.SQLITE_LIMIT_SQL_LENGTH, 100_000),
            (apsw.SQLITE_LIMIT_EXPR_DEPTH, 200),
            (apsw.SQLITE_LIMIT_COMPOUND_SELECT, 20),
            (apsw.SQLITE_LIMIT_VDBE_OP, 100_000),
            (apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000),
            (apsw.SQLITE_LIMIT_ATTACHED, 0),
            (apsw.SQLITE_LIMIT_WORKER_THREADS, 0),
        )

    def _is_the_only_select(self, cursor: apsw.Cursor, *_: Any) -> bool:
        self._statements += 1
        self._names = [column[0] for column in cursor.get_description()]
        return self._statements == 1 and bool(self._names) and not cursor.is_explain

    def _is_over(self) -> bool:
        return time.monotonic() > self._deadline or apsw.memory_used() > self._memory

    def _read(self, connection: apsw.Connection, sql: str) -> tuple[list[str], list[Row]]:
        try:
            rows = list(self._limited(connection.execute(sql)))
        except apsw.ExecTraceAbort:
            raise TooMuch("ask one SELECT at a time, and nothing else") from None
        except apsw.InterruptError:
            most = f"{self._limits.seconds:g} seconds or {self._limits.memory >> 20} MiB"
            raise TooMuch(f"it takes more than {most}; ask for less") from None
        return self._names, rows

    def _limited(self, rows: Iterable[Row]) -> Iterator[Row]:
        left = self._limits.row_bytes
        for count, row in enumerate(rows, start=1):
            left -= sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
            if count > self._limits.rows or left < 0:
                raise TooMuch(f"more than {self._limits.rows:,} rows; add a LIMIT")
            yield row


def _authorised(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action in _ALLOWED:
        return apsw.SQLITE_OK
    if action == apsw.SQLITE_READ and not str(first).lower().startswith(_CLOSED):
        return apsw.SQLITE_OK
    if action == apsw.SQLITE_FUNCTION and second != "load_extension":
        return apsw.SQLITE_OK
    return apsw.SQLITE_DENY


class _Jobs:
    """The jobs of this door as rows: one, those of a name, or all; read once for a question."""

    def __init__(self, desk: Desk, limits: Limits, deadline: float) -> None:
        self._store = desk.store
        self._limits = limits
        self._deadline = deadline
        self._all: list[Row] | None = None

    def by_id(self, job_id: Any) -> list[Row]:
        if _WHOLE.fullmatch(str(job_id)) is None:
            return []
        return [_row(job) for job in self._store.get([int(job_id)]).values() if _is_shown(job)]

    def all(self) -> list[Row]:
        if self._all is None:
            self._all = list(self._read())
        return self._all

    def _read(self) -> Iterator[Row]:
        left, bytes_left = self._limits.jobs, self._limits.job_bytes
        for page in pages(self._store, Filter(), _PAGE):
            for job in filter(_is_shown, page):
                left, bytes_left = left - 1, bytes_left - len(job.payload)
                if left < 0 or bytes_left < 0:
                    raise TooMuch("there are too many jobs; ask for one by its jobID")
                yield _row(job)
            if time.monotonic() > self._deadline:
                raise TooMuch("there are too many jobs; ask for one by its jobID")


def _is_shown(job: Job) -> bool:
    return words.is_ours(job.queue)


def _row(job: Job) -> Row:
    fields = words.as_it_is(job)
    fields["data"] = bytes(fields["data"]).decode()
    fields |= {"parentJobID": job.parent_id or 0, "attempt": job.attempt}
    return tuple(fields.get(name) for name in COLUMNS)


class _Module:
    """What SQLite needs to know a kind of table."""

    def __init__(self, jobs: _Jobs) -> None:
        self._jobs = jobs

    def Create(self, *_: Any) -> tuple[str, _Table]:  # noqa: N802 - called so by SQLite
        return _TABLE, _Table(self._jobs)

    Connect = Create


class _Table:
    """The table: found by jobID, or read from end to end."""

    def __init__(self, jobs: _Jobs) -> None:
        self._jobs = jobs

    def BestIndex(  # noqa: N802
        self, constraints: Sequence[tuple[int, int]], _: Any
    ) -> tuple[Any, ...]:
        used: list[Any] = [None] * len(constraints)
        for place, (column, operator) in enumerate(constraints):
            if (column, operator) == (_ID, apsw.SQLITE_INDEX_CONSTRAINT_EQ):
                used[place] = (0, False)
                return (used, 1, None, False, 1)
        return (used, 0, None, False, 1e6)

    def Open(self) -> _Cursor:  # noqa: N802
        return _Cursor(self._jobs)

    def Disconnect(self) -> None:  # noqa: N802
        """Nothing to let go of."""

    Destroy = Disconnect


class _Cursor:
    """One walk through the rows."""

    def __init__(self, jobs: _Jobs) -> None:
        self._jobs = jobs
        self._rows: list[Row] = []
        self._at = 0

    def Filter(self, index: int, _: Any, values: Sequence[Any]) -> None:  # noqa: N802
        self._rows = self._jobs.by_id(values[0]) if index == 1 else self._jobs.all()
        self._at = 0

    def Eof(self) -> bool:  # noqa: N802
        return self._at >= len(self._rows)

    def Rowid(self) -> int:  # noqa: N802
        job_id: int = self._rows[self._at][_ID]
        return job_id

    def Column(self, number: int) -> Any:  # noqa: N802
        return self.Rowid() if number < 0 else self._rows[self._at][number]

    def Next(self) -> None:  # noqa: N802
        self._at += 1

    def Close(self) -> None:  # noqa: N802
        """Nothing to let go of."""
