"""Where messages are put by brokers that push them, until the bridge takes them."""

from __future__ import annotations

import asyncio

from stoker.bridges.message import Message

MOST = 100
"""Messages that are on their way at once."""


class Inbox:
    """Messages of one connection, and its end."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._came: asyncio.Queue[Message | Exception] = asyncio.Queue()

    def put(self, message: Message | Exception) -> None:
        """A message came; or there will be no more, for this reason."""
        self._came.put_nowait(message)

    def put_from_thread(self, message: Message | Exception) -> None:
        """The same, from a thread that is not the event loop's."""
        self._loop.call_soon_threadsafe(self.put, message)

    async def take(self) -> list[Message]:
        """Whatever is there, at least one."""
        taken = [_message(await self._came.get())]
        while len(taken) < MOST and not self._came.empty():
            taken.append(_message(self._came.get_nowait()))
        return taken


def _message(came: Message | Exception) -> Message:
    if isinstance(came, Exception):
        raise came
    return came
