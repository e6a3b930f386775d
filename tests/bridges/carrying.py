"""Bridges in this process, and a patient look at what comes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from stoker.bridges import Bridge, open_bridge
from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.kernel.outcome import Awaits

T = TypeVar("T")

PATIENCE = 40


def asking(desk: Desk, key: str) -> int:
    """A job that waits for an answer."""
    desk.intake.enqueue(Job("orders"))
    (job,) = desk.dispatch.claim(["orders"])
    return desk.report.wait(job, Awaits(key)).id


def answer_of(desk: Desk, job_id: int) -> bytes | None:
    return desk.store.get([job_id])[job_id].reply


def carried(desk: Desk, url: str, play: Callable[[Bridge], Awaitable[T]]) -> T:
    """Open a bridge, let something happen, and close it."""

    async def run() -> T:
        bridge = open_bridge(desk, url)
        async with asyncio.timeout(PATIENCE):
            await bridge.open()
            try:
                return await play(bridge)
            finally:
                await bridge.close()

    return asyncio.run(run())


async def until(condition: Callable[[], object]) -> None:
    """Look again and again."""
    while not condition():
        await asyncio.sleep(0.01)
