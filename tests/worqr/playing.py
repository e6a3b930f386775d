"""Peers for tests: async tests that pytest can call, and company that is closed in the end."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, ParamSpec

from stoker.store import Store
from stoker.worqr import Event, EventType, Worqr

P = ParamSpec("P")
PATIENCE = 30
SLOW = {"worker_heartbeat_interval": 2.9}
"""For workers that are to die: the store's clock is faster than their hearts."""


def played(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """An async test as a plain one."""

    @functools.wraps(test)
    def play(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(_within_limits(test(*args, **kwargs)))

    return play


async def _within_limits(play: Awaitable[None]) -> None:
    async with asyncio.timeout(PATIENCE):
        await play


@asynccontextmanager
async def company(store: Store, *names: str, **options: Any) -> AsyncIterator[tuple[Worqr, ...]]:
    """Peers with these worker ids."""
    async with AsyncExitStack() as stack:
        peers = [Worqr(store, worker_id=name, **options) for name in names]
        yield tuple([await stack.enter_async_context(peer) for peer in peers])


@asynccontextmanager
async def at_work(store: Store, *names: str, **options: Any) -> AsyncIterator[tuple[Worqr, ...]]:
    """Peers whose workers are started and work on queue q."""
    async with company(store, *names, **options) as peers:
        for peer in peers:
            await peer.start_worker()
            await peer.start_work("q")
        yield peers


class Ear:
    """Hears all events of one peer."""

    def __init__(self, peer: Worqr) -> None:
        self._events = peer.events()

    async def next(self) -> Event:
        return await anext(self._events)

    async def until(self, type_: EventType) -> Event:
        """The next event of this type; others are passed over."""
        while (event := await self.next()).type is not type_:
            pass
        return event
