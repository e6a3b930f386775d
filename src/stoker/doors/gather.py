"""From the event loop to the store and back: calls that come together are served together.

While one batch is on its way to the disk the next one gathers, so batches grow with the load by
themselves, and a thousand connections cost as many threads and commits as ten.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from stoker.errors import StokerError

logger = logging.getLogger("stoker.doors")

T = TypeVar("T")
R = TypeVar("R")

Done = Callable[[R | BaseException], None]


class Gatherer(Generic[T, R]):
    """Calls of one kind. `serve` answers a batch, in a thread; each answer may be an error."""

    def __init__(
        self, pool: ThreadPoolExecutor, serve: Callable[[list[T]], list[R | BaseException]]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = pool
        self._serve = serve
        self._inbox: list[tuple[T, Done[R]]] = []
        self._due = False
        self._at_work = False

    @property
    def idle(self) -> bool:
        """Is nothing on its way?"""
        return not self._at_work and not self._inbox

    def call(self, item: T, done: Done[R]) -> None:
        """Have a call served; `done` is told in the loop what came of it."""
        self._inbox.append((item, done))
        if not self._at_work and not self._due:
            self._due = True
            self._loop.call_soon(self._send)  # after all that came in the same moment

    def _send(self) -> None:
        self._due = False
        batch, self._inbox = self._inbox, []
        self._at_work = True
        self._pool.submit(self._work, batch)

    def _work(self, batch: list[tuple[T, Done[R]]]) -> None:
        answers = self._served([item for item, _ in batch])
        self._loop.call_soon_threadsafe(self._deliver, batch, answers)

    def _served(self, items: list[T]) -> list[R | BaseException]:
        try:
            return self._serve(items)
        except StokerError as error:
            return [error] * len(items)  # the store is in trouble, for all of them
        except Exception as error:  # noqa: BLE001 - handed to the callers, who answer for it
            if len(items) == 1:
                return [error]
            # One caller's fault must not become another's failure.
            return [answer for item in items for answer in self._served([item])]

    def _deliver(self, batch: list[tuple[T, Done[R]]], answers: list[R | BaseException]) -> None:
        self._at_work = False
        if self._inbox:
            self._send()
        for (_, done), answer in zip(batch, answers, strict=True):
            try:
                done(answer)
            except Exception:
                logger.exception("an answer could not be delivered")
