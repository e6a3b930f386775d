"""A door in a thread of the test: for settings that no command line has."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from stoker.desk import Desk
from stoker.doors.bedrock.server import BedrockDoor, Settings
from tests.bedrock.wire import Wire


@contextmanager
def opened(desk: Desk, settings: Settings) -> Iterator[list[Wire]]:
    """The door's port is that of the first wire; all wires in the list are closed in the end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    door = BedrockDoor(desk, settings._replace(port=0))
    where = asyncio.run_coroutine_threadsafe(door.open(), loop).result()
    wires = [Wire(int(where.rpartition(":")[2]))]
    try:
        yield wires
    finally:
        for wire in wires:
            wire.close()
        asyncio.run_coroutine_threadsafe(door.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
