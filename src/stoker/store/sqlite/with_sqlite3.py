"""The SQLite library of Python's own `sqlite3`: older, and there without anything installed.

A connection of its is made to speak as one of apsw does.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote
from weakref import WeakSet

from stoker.errors import StoreUnfit
from stoker.store.sqlite.library import Lent, Trouble

OLDEST = (3, 38, 0)
"""STRICT tables came with 3.37, JSON that is always there and its `->>` with 3.38."""

_TROUBLES = {
    sqlite3.SQLITE_FULL: Trouble.FULL,
    sqlite3.SQLITE_BUSY: Trouble.LOCKED,
    sqlite3.SQLITE_LOCKED: Trouble.LOCKED,
    sqlite3.SQLITE_READONLY: Trouble.READ_ONLY,
    sqlite3.SQLITE_PERM: Trouble.READ_ONLY,
    sqlite3.SQLITE_CORRUPT: Trouble.DAMAGED,
    sqlite3.SQLITE_NOTADB: Trouble.DAMAGED,
    sqlite3.SQLITE_CANTOPEN: Trouble.CANNOT_OPEN,
}


class Cursor(sqlite3.Cursor):
    """One that can be asked for what a single row holds."""

    @property
    def get(self) -> Any:
        rows = self.fetchall()
        if not rows:
            return None
        return rows[0] if len(rows[0]) > 1 else rows[0][0]


class Connection:
    """A connection as the engine knows them."""

    def __init__(self, own: sqlite3.Connection) -> None:
        self._own = own
        self._cursors: WeakSet[Cursor] = WeakSet()

    @property
    def in_transaction(self) -> bool:
        return self._own.in_transaction

    def execute(self, sql: str, values: Sequence[Any] | None = None) -> Cursor:
        if values is None and ";" in sql:
            return self._script(sql)
        if sql == "ROLLBACK":
            self._close_cursors()
        cursor = self._cursor()
        cursor.execute(sql, values or ())
        return cursor

    def _close_cursors(self) -> None:
        """A statement that an interrupt has stopped may live on in its traceback, and nothing could
        be committed until that is gone."""
        for cursor in list(self._cursors):
            cursor.close()

    def _script(self, text: str) -> Cursor:
        """Not with `executescript`, which would commit first."""
        cursor, statement = self._cursor(), ""
        for piece in text.split(";"):
            statement += piece + ";"
            if sqlite3.complete_statement(statement):
                cursor.execute(statement)
                statement = ""
        return cursor

    def _cursor(self) -> Cursor:
        cursor = self._own.cursor(Cursor)
        cursor.row_factory = None  # which the owner of a connection may have set
        self._cursors.add(cursor)
        return cursor

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> Cursor:
        cursor = self._cursor()
        cursor.executemany(sql, rows)
        return cursor

    def total_changes(self) -> int:
        return self._own.total_changes

    def close(self) -> None:
        self._own.close()

    def __enter__(self) -> Self:
        self.execute("BEGIN")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.in_transaction:
            self.execute("COMMIT" if kind is None else "ROLLBACK")


class Sqlite3:
    """As `Library` says."""

    name = "sqlite3"
    error = sqlite3.Error

    def version(self) -> str:
        return sqlite3.sqlite_version

    def connect(self, path: str, busy_timeout: float, *, read_only: bool) -> Connection:
        if not read_only and not os.access(path, os.W_OK, effective_ids=True):
            # SQLite would open it for reading, and this module does not tell.
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        own = sqlite3.connect(
            f"file:{quote(path)}?mode={'ro' if read_only else 'rw'}",
            uri=True,
            timeout=busy_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        if sys.version_info >= (3, 12):
            own.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_QPSG)  # as with apsw
        return Connection(own)

    def trouble(self, error: Exception) -> Trouble:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            # Of the module itself: about text that is no UTF-8, or a connection that was closed.
            damaged = isinstance(error, sqlite3.OperationalError)
            return Trouble.DAMAGED if damaged else Trouble.OTHER
        if code == sqlite3.SQLITE_BUSY_SNAPSHOT:
            return Trouble.OUTRUN
        return _TROUBLES.get(code & 0xFF, Trouble.OTHER)

    @contextmanager
    def lent(self, connection: sqlite3.Connection) -> Iterator[Lent]:
        text_factory, connection.text_factory = connection.text_factory, str
        try:
            yield Lent(Connection(connection), begins=_begins(connection))
        finally:
            connection.text_factory = text_factory


def _begins(connection: sqlite3.Connection) -> bool:
    autocommit = getattr(connection, "autocommit", None)  # from Python 3.12 on
    return connection.isolation_level is not None and autocommit is not True


def check_version() -> None:
    """Refuse a library that does not know what the engine says."""
    if sqlite3.sqlite_version_info < OLDEST:
        oldest = ".".join(map(str, OLDEST[:2]))
        raise StoreUnfit(
            f"the SQLite of this Python is {sqlite3.sqlite_version}, Stoker needs {oldest} or "
            "newer; install one with: pip install 'stoker[sqlite]'"
        )


SQLITE3 = Sqlite3()
