"""How a file is: sound, durable, writable, and with room to grow."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from stoker.store.files import statements
from stoker.store.finding import Finding, Level, size
from stoker.store.sqlite.driver import File, Sync
from stoker.store.sqlite.library import Connection, Library, Trouble

_SQL = statements("stoker.store.sqlite.sql", "check.sql")
_MOST_TOLD = 5
_LITTLE_ROOM = 256 * 1024 * 1024
_PROMISES = {
    Sync.FULL: (
        "sync=full: nothing acknowledged is lost when a process is killed, nor when the machine "
        "loses power (as long as the disk tells the truth about having written)"
    ),
    Sync.NORMAL: (
        "sync=normal: nothing acknowledged is lost when a process is killed; when the machine "
        "loses power the last commits may be lost, the file stays sound"
    ),
}


def findings(connection: Connection, file: File, migrated: tuple[int, int]) -> list[Finding]:
    """Everything there is to say about a file that is open."""
    return [
        _file(file.path),
        Finding("library", f"SQLite {file.library.version()}, of {file.library.name}"),
        _schema(*migrated),
        *_contents(connection, file.library),
        Finding("durability", _PROMISES[file.sync]),
        *_permissions(Path(file.path)),
        _room(file.path),
    ]


def _file(path: str) -> Finding:
    log = Path(path + "-wal")
    beside = f", write-ahead log {size(log.stat().st_size)}" if log.exists() else ""
    return Finding("file", f"{path}: {size(Path(path).stat().st_size)}{beside}")


def _schema(found: int, now: int) -> Finding:
    if found == now:
        return Finding("schema", f"version {now}, up to date")
    return Finding("schema", f"version {now}, brought up from {found} just now")


def _contents(connection: Connection, library: Library) -> Iterator[Finding]:
    """Whether the file is sound; if it is, whether the books agree with what is in it."""
    damage = _damage(connection, library)
    for line in damage:
        yield Finding("integrity", f"{line}; restore a backup", Level.PROBLEM)
    if damage:
        return
    yield Finding("integrity", "every page and row is sound")
    wrong = [str(row[0]) for row in connection.execute(_SQL["unbalanced"], (_MOST_TOLD,))]
    if not wrong:
        yield Finding("books", "the counts of every queue agree with its jobs")
    for queue in wrong:
        text = f"the counts of the queue {queue} do not agree with its jobs"
        yield Finding("books", text, Level.PROBLEM)


def _damage(connection: Connection, library: Library) -> list[str]:
    said: list[str] = []
    try:
        for row in connection.execute(f"PRAGMA quick_check({_MOST_TOLD})"):
            said.append(str(row[0]))
    except library.error as error:
        if library.trouble(error) is not Trouble.DAMAGED:
            raise
        said.append(str(error))
    return [] if said == ["ok"] else said


def _permissions(path: Path) -> Iterator[Finding]:
    for each in (path, path.parent):
        if not os.access(each, os.W_OK):
            text = f"{each} cannot be written; check its owner and permissions"
            yield Finding("permissions", text, Level.PROBLEM)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        text = f"everybody on this machine may see the jobs ({mode:o}); chmod 600 {path}"
        yield Finding("permissions", text, Level.WARNING)
    else:
        yield Finding("permissions", f"the file is closed to others ({mode:o})")


def _room(path: str) -> Finding:
    free = shutil.disk_usage(Path(path).parent).free
    needed = max(_LITTLE_ROOM, Path(path).stat().st_size // 2)
    if free < needed:
        return Finding("disk", f"only {size(free)} free; make room soon", Level.WARNING)
    return Finding("disk", f"{size(free)} free")
