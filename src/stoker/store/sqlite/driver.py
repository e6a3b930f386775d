"""Opening SQLite files, and telling their troubles in our words."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum
from pathlib import Path
from weakref import WeakSet

import msgspec

from stoker.errors import (
    BadInput,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnfit,
)
from stoker.store.sqlite.library import Connection, Library, Trouble

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


class File:
    """A database file, and how this process opens it: all its connections by one library."""

    def __init__(self, path: str, library: Library, sync: Sync, busy_timeout: float) -> None:
        self.path = path
        self.library = library
        self.sync = sync
        self._busy_timeout = busy_timeout

    def connect(self, *, read_only: bool = False) -> Connection:
        """A connection with our settings. Nothing of what the file holds is changed by it."""
        with self.troubles(), ExitStack() as opened:
            connection = self.library.connect(self.path, self._busy_timeout, read_only=read_only)
            opened.callback(connection.close)
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            connection.execute(f"PRAGMA synchronous = {self.sync.value}")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            connection.execute("PRAGMA temp_store = MEMORY")
            opened.pop_all()
            return connection

    def make(self) -> None:
        """Make a missing file, for its owner only. One that is there must not be opened here:
        closing it again would drop every lock that this process holds on it, and with them its
        commits."""
        with suppress(FileExistsError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(self.path, flags, 0o600))

    def is_at(self, path: str) -> bool:
        """Does this path lead to the file? Nothing is opened to find out: to close it again would
        drop the locks on it."""
        try:
            return Path(path).samefile(self.path)
        except OSError:
            return False

    def take(self) -> None:
        """Refuse to open what this process has open with another library."""
        with _taking:
            for other in _taken:
                if other.library is not self.library and self.is_at(other.path):
                    raise BadInput(
                        f"this process uses {self.path} with {other.library.name} already, and "
                        "two SQLite libraries on one file undo each other's locks; give the same "
                        "?library= in all URLs of the store"
                    )
            _taken.add(self)

    def let_go(self) -> None:
        """All connections to it are closed."""
        with _taking:
            _taken.discard(self)

    @contextmanager
    def troubles(self) -> Iterator[None]:
        """Turn SQLite's and the system's errors into ours, each saying what to do."""
        try:
            yield
        except self.library.error as error:
            raise _told(self.path, self.library.trouble(error), error) from error
        except OSError as error:
            raise _told_of_system(self.path, error) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreCorrupt(f"{self.path} holds what Stoker never wrote ({error})") from error


def begin(connection: Connection, how: str) -> None:
    """Begin a transaction. One that is open was left so by an interrupt on its way out."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")
    connection.execute(how)


_taken: WeakSet[File] = WeakSet()
_taking = threading.Lock()


_TOLD: dict[Trouble, tuple[type[StoreError], str]] = {
    Trouble.FULL: (
        StoreFull,
        (
            "no room left on the disk of {path}; nothing of this call was written, "
            "what was acknowledged before is safe. Free some space and try again"
        ),
    ),
    Trouble.LOCKED: (
        StoreLocked,
        "another program holds {path} for writing; end its transaction and try again",
    ),
    Trouble.OUTRUN: (
        StoreLocked,
        (
            "others have written to {path} since this transaction read from it; roll it back, "
            "and begin it with BEGIN IMMEDIATE if it is to write after reading"
        ),
    ),
    Trouble.READ_ONLY: (
        StoreReadOnly,
        "{path} cannot be written; check the permissions of the file and of its folder",
    ),
    Trouble.DAMAGED: (
        StoreCorrupt,
        (
            "{path} is damaged or no SQLite file ({error}); restore it from a backup, or save "
            "what can be read with the sqlite3 program's .recover command"
        ),
    ),
    Trouble.CANNOT_OPEN: (
        StoreUnfit,
        "cannot open {path}: check that its folder exists and is yours",
    ),
    Trouble.OTHER: (StoreError, "SQLite failed on {path}: {error}"),
}


def _told(path: str, trouble: Trouble, error: Exception) -> StoreError:
    kind, text = _TOLD[trouble]
    return kind(text.format(path=path, error=error))


def _told_of_system(path: str, error: OSError) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"no room left on the disk of {path}; free some space and try again")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StoreReadOnly(
            f"{path} cannot be written ({error.strerror}); check the permissions of the file "
            "and of its folder"
        )
    if error.errno == errno.ENOENT:
        return StoreUnfit(f"cannot open {path}: its folder does not exist; make it first")
    return StoreUnavailable(f"cannot open {path}: {error.strerror}")
