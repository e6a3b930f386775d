"""Faults of a disk, made to measure."""

from __future__ import annotations

import apsw

from tests.store.sqlite.disk import Delete, Happening, Truncate, Write


class Once:
    """The fault that befalls one event of a kind, after so many others of its kind."""

    def __init__(self, kind: type[Happening], after: int, error: type[apsw.Error]) -> None:
        self._kind = kind
        self._left = after
        self._error = error

    def __call__(self, event: Happening) -> None:
        if isinstance(event, self._kind):
            self._left -= 1
            if self._left == -1:
                raise self._error("a fault of the test's own making")


class Room:
    """A disk with so much room: files grow into it, and give it back when they go."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._files: dict[str, int] = {}

    def __call__(self, event: Happening) -> None:
        if isinstance(event, Delete):
            self._files.pop(event.file, None)
        elif isinstance(event, Truncate):
            self._files[event.file] = event.size
        elif isinstance(event, Write):
            self._grow(event.file, event.offset + len(event.data))

    def _grow(self, file: str, size: int) -> None:
        more = max(0, size - self._files.get(file, 0))
        if sum(self._files.values()) + more > self.size:
            raise apsw.FullError("no space left on device")
        self._files[file] = self._files.get(file, 0) + more
