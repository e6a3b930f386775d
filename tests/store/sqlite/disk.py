"""A disk that can be cut off: it notes all that SQLite does to its files, and can refuse to do it.

While a `Disk` is in use it is the default file system of SQLite in this process. It passes
everything on to the real one, save that it never waits for the real disk. What it noted can be
played to a `Platter`, which knows at every moment which files a power cut would leave behind,
and with which contents.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw


class Write(NamedTuple):
    """Bytes on their way to a file."""

    file: str
    offset: int
    data: bytes


class Truncate(NamedTuple):
    """A file is cut to a size."""

    file: str
    size: int


class Sync(NamedTuple):
    """What was written to a file is to be on the disk from here on."""

    file: str


class Create(NamedTuple):
    """A file appears in the folder. SQLite syncs the folder with the first sync of its logs."""

    file: str
    is_log: bool


class Delete(NamedTuple):
    """A file leaves the folder."""

    file: str


class Mark(NamedTuple):
    """Something the test wants to find again: an acknowledgement, say."""

    what: Any


Happening = Write | Truncate | Sync | Create | Delete | Mark


class Failed(NamedTuple):
    """Something that did not happen, because SQLite was told of a fault instead."""

    event: Happening


Event = Happening | Failed
Fault = Callable[[Happening], None]
"""Called before an event happens; what it raises is what SQLite is told instead."""


class Disk:
    """The tape of all events, and a fault that may keep one from happening."""

    def __init__(self) -> None:
        self.tape: list[Event] = []
        self.fault: Fault | None = None

    def note(self, event: Happening) -> None:
        try:
            if self.fault is not None:
                self.fault(event)
        except apsw.Error:
            self.tape.append(Failed(event))
            raise
        self.tape.append(event)


@contextmanager
def disk_in_use() -> Iterator[Disk]:
    """All SQLite files opened from here on, until they are closed, are on a new `Disk`."""
    disk = Disk()
    files = _Files(disk)
    try:
        yield disk
    finally:
        files.unregister()


class _Files(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self._real = apsw.vfs_names()[0]
        super().__init__("stoker-disk", base=self._real, makedefault=True)
        self._disk = disk

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802
        path = _path(name)
        if not path.exists() or not path.stat().st_size:
            is_log = not flags[0] & apsw.SQLITE_OPEN_MAIN_DB
            self._disk.note(Create(path.name, is_log))
        return _File(self._real, name, flags, self._disk)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self._disk.note(Delete(Path(filename).name))
        super().xDelete(filename, syncdir)


class _File(apsw.VFSFile):
    def __init__(self, real: str, name: Any, flags: list[int], disk: Disk) -> None:
        super().__init__(real, name, flags)
        self._disk = disk
        self._name = _path(name).name

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.note(Write(self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.note(Truncate(self._name, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.note(Sync(self._name))


def _path(name: Any) -> Path:
    return Path(name if isinstance(name, str) else name.filename())


class _Content:
    """One file: what is on the disk, and what is only on its way there."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.pending: list[Write | Truncate] = []

    def sync(self) -> None:
        for change in self.pending:
            _apply(change, self.kept)
        self.pending.clear()


class Platter:
    """Replays a tape. Names and contents are kept apart, as file systems do it."""

    def __init__(self) -> None:
        self._files: dict[str, _Content] = {}
        self._folder: dict[str, _Content] = {}
        self._fresh_logs: set[str] = set()

    def play(self, event: Event) -> None:
        if isinstance(event, Write | Truncate):
            self._files[event.file].pending.append(event)
        elif isinstance(event, Sync):
            self._files[event.file].sync()
            if event.file in self._fresh_logs:
                self._sync_folder()
        elif isinstance(event, Failed):
            self._fail(event.event)
        elif isinstance(event, Create) and event.file not in self._files:
            self._files[event.file] = _Content()
            if event.is_log:
                self._fresh_logs.add(event.file)
        elif isinstance(event, Delete):
            del self._files[event.file]

    def _fail(self, event: Happening) -> None:
        """What a system could not write it may forget, and say so only once."""
        if isinstance(event, Sync):
            self._files[event.file].pending.clear()

    def _sync_folder(self) -> None:
        self._fresh_logs.clear()
        self._folder = dict(self._files)

    def left(self) -> dict[str, bytes]:
        """The files after a power cut that takes all it may take."""
        return {name: bytes(content.kept) for name, content in self._folder.items()}

    def left_by(self, survives: Callable[[bytes], bytes]) -> dict[str, bytes]:
        """The files after a power cut that takes what it likes: `survives` tells for every write
        on its way which part of it arrived."""
        return {name: _torn(content, survives) for name, content in self._files.items()}


def _torn(content: _Content, survives: Callable[[bytes], bytes]) -> bytes:
    found = bytearray(content.kept)
    for change in content.pending:
        if isinstance(change, Write):
            _apply(change._replace(data=survives(change.data)), found)
        else:
            _apply(change, found)
    return bytes(found)


def _apply(change: Write | Truncate, content: bytearray) -> None:
    if isinstance(change, Truncate):
        del content[change.size :]
    elif change.data:
        end = change.offset + len(change.data)
        content.extend(bytes(max(0, end - len(content))))
        content[change.offset : end] = change.data


@contextmanager
def restored(files: dict[str, bytes], folder: Path) -> Iterator[Path]:
    """The files of a cut-off disk in a folder of their own; gives the path of the database."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    yield folder / "jobs.db"
    shutil.rmtree(folder)
