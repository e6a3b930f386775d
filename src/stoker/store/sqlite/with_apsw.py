"""The SQLite library inside apsw, which is what the engine was made for: it needs no adapter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from stoker.store.sqlite.library import Lent, Trouble

_TROUBLES: dict[type[Exception], Trouble] = {
    apsw.FullError: Trouble.FULL,
    apsw.BusyError: Trouble.LOCKED,
    apsw.LockedError: Trouble.LOCKED,
    apsw.ReadOnlyError: Trouble.READ_ONLY,
    apsw.PermissionsError: Trouble.READ_ONLY,
    apsw.CorruptError: Trouble.DAMAGED,
    apsw.NotADBError: Trouble.DAMAGED,
    apsw.CantOpenError: Trouble.CANNOT_OPEN,
}


class Apsw:
    """As `Library` says."""

    name = "apsw"
    error = apsw.Error

    def version(self) -> str:
        return apsw.sqlite_lib_version()

    def connect(self, path: str, busy_timeout: float, *, read_only: bool) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
        connection = apsw.Connection(path, flags=flags, statementcachesize=256)
        if connection.readonly("main") and not read_only:
            raise apsw.ReadOnlyError
        connection.set_busy_timeout(round(busy_timeout * 1000))
        # Bound values must not change the plan: re-planning made claims four times slower.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        return connection

    def trouble(self, error: Exception) -> Trouble:
        if getattr(error, "extendedresult", None) == apsw.SQLITE_BUSY_SNAPSHOT:
            return Trouble.OUTRUN
        return _TROUBLES.get(type(error), Trouble.OTHER)

    @contextmanager
    def lent(self, connection: apsw.Connection) -> Iterator[Lent]:
        row_trace, connection.row_trace = connection.row_trace, None
        try:
            yield Lent(connection, begins=False)
        finally:
            connection.row_trace = row_trace


APSW = Apsw()
