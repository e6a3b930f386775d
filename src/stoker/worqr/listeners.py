"""Who in the application wants to hear of events: callbacks, and loops over events."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from types import EllipsisType
from typing import Any

from stoker.worqr.events import Event

logger = logging.getLogger("stoker.worqr")

Callback = Callable[[Event], Awaitable[Any] | None]
Topic = str | None | EllipsisType
"""A queue, None for events of the peer itself, or ... for all."""


class Listeners:
    """All that listens to one peer, on one event loop."""

    def __init__(self) -> None:
        self._callbacks: list[tuple[Topic, Callback]] = []
        self._streams: list[tuple[Topic, asyncio.Queue[Event | None]]] = []
        self._tasks: set[asyncio.Future[Any]] = set()
        self._closed = False

    def on(self, topic: Topic, callback: Callback) -> None:
        """Call back at each event from now on."""
        self._callbacks.append((topic, callback))

    def off(self, topic: Topic, callback: Callback) -> None:
        """Call back no more."""
        self._callbacks = [each for each in self._callbacks if each != (topic, callback)]

    def stream(self, topic: Topic) -> AsyncIterator[Event]:
        """Events from this call on, until the peer is closed."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        if self._closed:
            queue.put_nowait(None)
        self._streams.append((topic, queue))
        return self._flow(topic, queue)

    async def _flow(self, topic: Topic, queue: asyncio.Queue[Event | None]) -> AsyncIterator[Event]:
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._streams.remove((topic, queue))

    def tell(self, event: Event) -> None:
        """An event has happened."""
        for topic, queue in self._streams:
            if topic in (..., event.queue):
                queue.put_nowait(event)
        for topic, callback in self._callbacks:
            if topic in (..., event.queue):
                self._call(callback, event)

    def _call(self, callback: Callback, event: Event) -> None:
        try:
            answer = callback(event)
            if inspect.isawaitable(answer):
                task = asyncio.ensure_future(answer)
                self._tasks.add(task)
                task.add_done_callback(self._done)
        except Exception:
            logger.exception("a listener failed at %s", event)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a listener failed", exc_info=task.exception())

    def close(self) -> None:
        """No more events: loops over them end."""
        self._closed = True
        for _, queue in self._streams:
            queue.put_nowait(None)
