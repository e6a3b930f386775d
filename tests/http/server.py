"""A door in a thread of the test: for settings that no command line has."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from stoker.desk import Desk
from stoker.doors.http.server import HttpDoor
from stoker.doors.http.settings import Settings
from stoker.store.memory import MemoryStore


@contextmanager
def listening(settings: Settings, desk: Desk | None = None) -> Iterator[int]:
    """Serve a desk, or an empty one; the port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    door = HttpDoor(desk or Desk(MemoryStore()), settings)
    where = asyncio.run_coroutine_threadsafe(door.open(), loop).result()
    try:
        yield int(where.rpartition(":")[2])
    finally:
        asyncio.run_coroutine_threadsafe(door.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
