"""Opening SQLite files, and telling its troubles in our words."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from stoker.errors import (
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
)

try:
    import apsw
except ImportError as missing:  # pragma: no cover - needs an environment without it
    raise StoreUnavailable(
        "the SQLite store needs apsw; install it with: pip install 'stoker[sqlite]'"
    ) from missing

_BUSY_MS = 10_000
_CHECKPOINT_PAGES = 2000
_CACHE_KIB = 65_536
_WAL_KEPT_BYTES = 64 * 1024 * 1024


class Sync(Enum):
    """What a power cut may take: with FULL nothing acknowledged, with NORMAL the last moments.

    The crash of a process alone loses nothing either way.
    """

    FULL = "full"
    NORMAL = "normal"


def connect(path: str, sync: Sync, *, read_only: bool = False) -> apsw.Connection:
    """A connection with our settings. The file is made, for its owner only, if it is missing."""
    with troubles(path):
        if not read_only:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
        connection = apsw.Connection(path, flags=flags, statementcachesize=256)
        connection.set_busy_timeout(_BUSY_MS)
        # Bound values must not change the plan: re-planning made claims four times slower.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        if not read_only:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA synchronous = {sync.value}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection


@contextmanager
def troubles(path: str) -> Iterator[None]:
    """Turn SQLite's and the system's errors into ours, each saying what to do."""
    try:
        yield
    except apsw.Error as error:
        raise _told(path, error) from error
    except OSError as error:
        raise _told_of_system(path, error) from error


def _told(path: str, error: apsw.Error) -> StoreError:
    if isinstance(error, apsw.FullError):
        return StoreFull(
            f"no room left on the disk of {path}; nothing of this call was written, "
            "what was acknowledged before is safe. Free some space and try again"
        )
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreLocked(
            f"another program holds {path} for writing; end its transaction and try again"
        )
    if isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError):
        return StoreReadOnly(
            f"{path} cannot be written; check the permissions of the file and of its folder"
        )
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return StoreCorrupt(
            f"{path} is damaged or no SQLite file ({error}); restore it from a backup, or save "
            "what can be read with the sqlite3 program's .recover command"
        )
    if isinstance(error, apsw.CantOpenError):
        return StoreUnavailable(f"cannot open {path}: check that its folder exists and is yours")
    return StoreError(f"SQLite failed on {path}: {error}")


def _told_of_system(path: str, error: OSError) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"no room left on the disk of {path}; free some space and try again")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StoreReadOnly(
            f"{path} cannot be written ({error.strerror}); check the permissions of the file "
            "and of its folder"
        )
    return StoreUnavailable(f"cannot open {path}: {error.strerror}")
