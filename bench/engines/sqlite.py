"""SQLite: no server, and a new file for each contestant's turn."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import apsw

from bench.engines.engine import Idler, Place, Raw
from bench.footprint import written
from bench.loop import Loop, apart
from bench.raw import RawLoop
from bench.stopwatch import clear_log
from stoker.store.sqlite.driver import Sync


class File(NamedTuple):
    """A database of its own."""

    path: Path

    @property
    def url(self) -> str:
        """For Stoker; peers take the path out of it."""
        return f"sqlite:///{self.path}"

    def settle(self) -> None:
        """Empty the write-ahead log."""
        clear_log(self.path)

    def weight(self) -> int:
        """The whole file."""
        if not self.path.exists():
            return 0
        self.settle()
        return self.path.stat().st_size


def _raw(place: Place) -> Loop:
    return RawLoop(cast("File", place).path, Sync.FULL)


class Sqlite:
    """The library that is in this process."""

    name = "sqlite"
    title = "SQLite"
    raws: tuple[Raw, ...] = (Raw("raw", _raw, apart),)
    keeps = True
    crowds: tuple[int, ...] = (1, 2)
    asks = "bytes written/s"
    weighs = "the whole file"

    def facts(self) -> list[str]:
        """The versions of the library and its driver."""
        return [f"SQLite {apsw.sqlite_lib_version()}, apsw {apsw.apsw_version()}"]

    @contextmanager
    def place(self, folder: Path) -> Iterator[File]:
        """A file in a folder of its own."""
        with tempfile.TemporaryDirectory(dir=folder) as own:
            yield File(Path(own) / "jobs.db")

    def old_snapshot(self, place: Place) -> None:
        """A reader keeps the log from being emptied, not rows from going."""

    def asked(self, idlers: Sequence[Idler], meanwhile: Callable[[], None]) -> list[int]:
        """Bytes that the workers' processes wrote."""
        before = [written(idler.pids) for idler in idlers]
        meanwhile()
        return [written(idler.pids) - early for idler, early in zip(idlers, before, strict=True)]


@contextmanager
def started(folder: Path) -> Iterator[Sqlite]:  # noqa: ARG001 - other engines keep data there
    """Nothing to start."""
    yield Sqlite()
