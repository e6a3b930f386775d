"""Opening SQLite files, and telling its troubles in our words."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum

import apsw
import msgspec

from stoker.errors import (
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
)

_CHECKPOINT_PAGES = 2000
# More would be dearer: now and then a commit walks through the whole cache.
_CACHE_KIB = 16_384
_WAL_KEPT_BYTES = 64 * 1024 * 1024


class Sync(Enum):
    """What a power cut may take: with FULL nothing acknowledged, with NORMAL the last moments.

    The crash of a process alone loses nothing either way.
    """

    FULL = "full"
    NORMAL = "normal"


def connect(
    path: str, sync: Sync, busy_timeout: float, *, read_only: bool = False
) -> apsw.Connection:
    """A connection with our settings. Nothing of what the file holds is changed by it."""
    with troubles(path):
        if not read_only:
            _make(path)
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
        connection = apsw.Connection(path, flags=flags, statementcachesize=256)
        if connection.readonly("main") and not read_only:
            raise apsw.ReadOnlyError
        connection.set_busy_timeout(round(busy_timeout * 1000))
        # Bound values must not change the plan: re-planning made claims four times slower.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA synchronous = {sync.value}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection


def _make(path: str) -> None:
    """Make a missing file, for its owner only. One that is there must not be opened here: closing
    it again would drop every lock that this process holds on it, and with them its commits."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


@contextmanager
def troubles(path: str) -> Iterator[None]:
    """Turn SQLite's and the system's errors into ours, each saying what to do."""
    try:
        yield
    except apsw.Error as error:
        raise _told(path, error) from error
    except OSError as error:
        raise _told_of_system(path, error) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreCorrupt(f"{path} holds what Stoker never wrote ({error})") from error


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
    if error.errno == errno.ENOENT:
        return StoreUnavailable(f"cannot open {path}: its folder does not exist; make it first")
    return StoreUnavailable(f"cannot open {path}: {error.strerror}")
