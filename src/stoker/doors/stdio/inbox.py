"""Lines that were read and not yet seen to."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable

from stoker.doors.stdio.wire import Lines
from stoker.store.bell import Nudge

logger = logging.getLogger("stoker.stdio")

_CHUNK = 2**18
_MOST = 2000


class Inbox:
    """Reads a stream in a thread of its own, which waits when there is much to see to."""

    def __init__(self, source: int, wake: Callable[[], None]) -> None:
        self._source = source
        self._wake = wake
        self._stop = Nudge()
        self._lines: deque[bytes] = deque()
        self._room = threading.Condition()
        self.ended = False
        """Is nothing more to come?"""
        self._closed = False
        self._reader = threading.Thread(target=self._read, name="stoker-stdin", daemon=True)
        self._reader.start()

    @property
    def drained(self) -> bool:
        """Is everything taken, and nothing to come?"""
        with self._room:
            return self.ended and not self._lines

    def take(self) -> list[bytes]:
        """What has been read, up to a point."""
        with self._room:
            taken = [self._lines.popleft() for _ in range(min(len(self._lines), _MOST))]
            self._room.notify()
            return taken

    def stop(self) -> None:
        """Read no more; what was read is there to be taken."""
        self._stop.push()

    def close(self) -> None:
        """Stop, and forget what was not taken."""
        with self._room:
            self._closed = True
            self._room.notify()
        self.stop()
        self._reader.join()
        self._stop.close()

    def _read(self) -> None:
        lines = Lines()
        try:
            while self._is_readable() and (data := os.read(self._source, _CHUNK)):
                self._put(lines.feed(data))
        except OSError as error:
            logger.error("standard input cannot be read: %s", error)
        self._put(lines.rest())
        with self._room:
            self.ended = True
        self._wake()

    def _is_readable(self) -> bool:
        """Wait for something to read; False: it is enough."""
        news = select.poll()
        news.register(self._source, select.POLLIN)
        news.register(self._stop, select.POLLIN)
        return all(source != self._stop.fileno() for source, _ in news.poll())

    def _put(self, lines: list[bytes]) -> None:
        if not lines:
            return
        with self._room:
            self._room.wait_for(lambda: self._closed or len(self._lines) < _MOST)
            self._lines.extend(lines)
        self._wake()
