"""The core: takes messages, does the errand, and only then tells the broker.

If the process dies in between, the message comes again, and a second answer does no harm.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import TypeVar

from stoker.bridges.errands import Errand
from stoker.bridges.message import Broker, Message
from stoker.errors import BadInput, Contended, StoreError

logger = logging.getLogger("stoker.bridges")

T = TypeVar("T")

_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)
_GOODBYE = 10.0
_SHOWN = 200
_QUIET = ("delivered", "enqueued")


class Bridge:
    """Carries messages from one broker until it is closed. It is a door like others."""

    def __init__(self, name: str, broker: Broker, errand: Errand) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()
        """What came of messages: delivered, kept, late, repeated, enqueued, useless."""
        self.connected = False
        self._broker = broker
        self._errand = errand
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> str:
        """Begin to carry; a broker that is away is waited for."""
        self._task = asyncio.create_task(self._run())
        return f"bridge from {self.name}"

    async def close(self) -> None:
        """See what was taken to its end, and stop."""
        self._closing.set()
        if self._task is not None:
            await self._task
        logger.info("the bridge from %s is closed: %s", self.name, _told(self.counts))

    async def _run(self) -> None:
        troubles = 0
        while not self._closing.is_set():
            try:
                await self._unless_closing(self._broker.connect())
                if not self._closing.is_set():
                    logger.info("connected with %s", self.name)
                    self.connected, troubles = True, 0
                    await self._carry()
            except Exception as error:  # noqa: BLE001 - whatever it is, the bridge goes on
                pause = _PAUSES[min(troubles, len(_PAUSES) - 1)]
                troubles += 1
                logger.warning("%s: %s; again in %g s", self.name, _said(error), pause)
                await self._unless_closing(asyncio.sleep(pause))
            finally:
                self.connected = False
                await self._hang_up()

    async def _hang_up(self) -> None:
        with suppress(Exception):  # it may be broken, which is why it is closed
            async with asyncio.timeout(_GOODBYE):
                await self._broker.close()

    async def _carry(self) -> None:
        while not self._closing.is_set():
            messages = await self._unless_closing(self._broker.take())
            if messages:
                await self._see_to(messages)

    async def _see_to(self, messages: Sequence[Message]) -> None:
        useless = await asyncio.to_thread(self._all, messages)
        for message, reason in useless:
            logger.error("%s: a message is of no use: %s: %s", self.name, reason, _start(message))
            await self._broker.bury(message, reason)
        await self._broker.done(messages)

    def _all(self, messages: Sequence[Message]) -> list[tuple[Message, str]]:
        """Do the errand for each, in order; gives those that are of no use."""
        useless = []
        for message in messages:
            try:
                word = self._insist(message)
            except BadInput as error:
                word = "useless"
                useless.append((message, str(error)))
            self.counts[word] += 1
            if word not in _QUIET:
                logger.info("%s: %s: %s", self.name, word, _start(message))
        return useless

    def _insist(self, message: Message) -> str:
        """Do the errand, however long the store is in trouble: not every broker sends again."""
        failures = 0
        while True:
            try:
                return self._errand(message)
            except (StoreError, Contended) as error:
                if self._closing.is_set():
                    raise
                pause = _PAUSES[min(failures, len(_PAUSES) - 1)]
                failures += 1
                logger.warning("%s: %s; again in %g s", self.name, _said(error), pause)
                time.sleep(pause)

    async def _unless_closing(self, work: Awaitable[T]) -> T | None:
        """Do something that may take long, but no longer than until the bridge is closed."""
        task, closing = asyncio.ensure_future(work), asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({task, closing}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            closing.cancel()
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items())) or "nothing came"


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _start(message: Message) -> str:
    """As much of a message as helps to find it again."""
    shown = message.body[:_SHOWN].decode("utf-8", "replace")
    return f"{shown!r} {dict(message.names)}"
