"""What the engine needs of an SQLite library, and which of those at hand it runs on.

There may be two in a process: the one inside apsw, and that of Python's own `sqlite3`. File locks
belong to a process, and closing a file in one library drops the locks that the other holds on it.
So all connections of a process to a file have to be of the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from importlib.util import find_spec
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self


class Cursor(Protocol):
    """What a statement has answered."""

    @property
    def get(self) -> Any:
        """Its only row, or the only value of that; None if there is none."""

    def fetchall(self) -> list[Any]:
        """All rows."""

    def __iter__(self) -> Iterator[Any]:
        """The rows one by one."""

    def close(self) -> None:
        """Ask for no more."""


class Connection(Protocol):
    """A connection to a file. No transaction begins unless it is told to."""

    @property
    def in_transaction(self) -> bool:
        """Is a transaction open?"""

    def execute(self, sql: str, values: Sequence[Any] | None = None, /) -> Cursor:
        """Run a statement; without values it may be several."""

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run a statement once for each row of values."""

    def total_changes(self) -> int:
        """How many rows were written since it was opened."""

    def close(self) -> None:
        """Let go of the file."""

    def __enter__(self) -> Self:
        """Begin a transaction, which ends with the block."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Commit, or roll back if there is an error."""


class Trouble(Enum):
    """What went wrong, whatever a library calls it."""

    FULL = "full"
    LOCKED = "locked"
    OUTRUN = "outrun"
    """A transaction has read, others have written since, and now it wants to write itself."""
    READ_ONLY = "read-only"
    DAMAGED = "damaged"
    CANNOT_OPEN = "cannot open"
    OTHER = "other"


class Lent(NamedTuple):
    """Somebody else's connection."""

    connection: Connection
    begins: bool
    """Does a write outside of a transaction begin one, which its owner ends?"""


class Library(Protocol):
    """An SQLite library, as the engine speaks to it."""

    @property
    def name(self) -> str:
        """The module of Python's that it comes with."""

    @property
    def error(self) -> type[Exception]:
        """What all its errors are."""

    def version(self) -> str:
        """Of SQLite."""

    def connect(self, path: str, busy_timeout: float, *, read_only: bool) -> Connection:
        """Open a file that is there."""

    def trouble(self, error: Exception) -> Trouble:
        """What one of its errors means."""

    def lent(self, connection: Any) -> AbstractContextManager[Lent]:
        """A connection of its own kind, with rows as they are; it is given back as it was."""


NAMES = ("apsw", "sqlite3")


def library_named(name: str | None) -> Library:
    """The library of that name; if none is named apsw, or Python's own where there is no apsw."""
    if name == "apsw" or (name is None and find_spec("apsw")):
        from stoker.store.sqlite.with_apsw import APSW  # noqa: PLC0415 - it need not be there

        return APSW
    from stoker.store.sqlite.with_sqlite3 import SQLITE3, check_version  # noqa: PLC0415 - nor this

    check_version()
    return SQLITE3


def library_of(connection: object) -> str | None:
    """The name of the library that a connection belongs to, if it is one of SQLite's."""
    modules = {base.__module__ for base in type(connection).__mro__}
    return next((name for name in NAMES if name in modules), None)
