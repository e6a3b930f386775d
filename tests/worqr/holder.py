"""A peer of its own: takes tasks, tells which, and holds or finishes them.

python holder.py URL NAME hold|drain
"""

from __future__ import annotations

import asyncio
import sys

from stoker.errors import Refused
from stoker.worqr import EventType, Worqr

LIVES = {"worker_heartbeat_interval": 0.1, "worker_timeout": 0.5, "worker_cleanup_interval": 0.2}


async def begin(peer: Worqr) -> None:
    await peer.start_worker()
    await peer.start_work("q")


async def hold(peer: Worqr) -> None:
    """Take one task and never let go."""
    await begin(peer)
    process = await peer.start_task("q")
    print(process.task if process else "nothing", flush=True)
    await asyncio.Event().wait()


async def drain(peer: Worqr) -> None:
    """Take all there is, and what will come, and finish it; taken for dead, begin again."""
    events = peer.events()
    await begin(peer)
    async for event in events:
        try:
            if event.type is EventType.FAILED:
                await begin(peer)
            while event.type is EventType.WORK and (process := await peer.start_task("q")):
                await peer.finish_task(process.id)
                print(process.task, flush=True)
        except Refused:
            continue  # that task was lost, and somebody else will do it


async def main(url: str, name: str, act: str) -> None:
    """Work on queue q, for a short life."""
    async with Worqr(url, worker_id=name, **LIVES) as peer:
        await {"hold": hold, "drain": drain}[act](peer)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
