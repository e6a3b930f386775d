"""A door's ear: hears the bell in a thread of its own, and tells of it in the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

from stoker.store.bell import Bell, Listener

_LISTEN = 1.0


class Ear:
    """Hears every ring from the moment it is made; `heard` is told in the running loop."""

    def __init__(self, bell: Bell, heard: Callable[[set[str]], None], name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard = heard
        self._over = Event()
        self._listener: Listener = bell.listen()
        self._thread = Thread(target=self._listen, name=f"{name}-ear", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Hear no more."""
        self._over.set()
        self._listener.interrupt()
        await asyncio.to_thread(self._thread.join)

    def _listen(self) -> None:
        try:
            while not self._over.is_set():
                names = self._listener.wait(_LISTEN)
                if names:
                    self._tell(names)
        finally:
            self._listener.close()

    def _tell(self, names: set[str]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._heard, names)
