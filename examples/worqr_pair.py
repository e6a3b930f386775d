"""A publisher and subscribers with nothing between them but a file. One of them dies at work.

python examples/worqr_pair.py
"""

from __future__ import annotations

import asyncio
import sys
from tempfile import TemporaryDirectory

from stoker.errors import Refused
from stoker.worqr import Event, EventType, Worqr


async def subscribe(url: str, name: str) -> None:
    """Do what there is to do, until somebody ends us."""
    async with Worqr(url, worker_id=name, worker_timeout=1.5) as worqr:
        events = worqr.events()
        await begin_work(worqr)
        async for event in events:
            if event.type is EventType.FAILED:
                await begin_work(worqr)  # we were too slow, and taken for dead
            elif event.type is EventType.WORK:
                await work(worqr, name)


async def begin_work(worqr: Worqr) -> None:
    await worqr.start_worker()
    await worqr.start_work("letters")


async def work(worqr: Worqr, name: str) -> None:
    """Take letters while there are any."""
    try:
        while process := await worqr.start_task("letters"):
            print(f"{name} begins {process.task!s}", flush=True)
            if name == "ann":
                await asyncio.Event().wait()  # she has fallen asleep over it
            await worqr.finish_task(process.id, result="sent")
    except Refused as error:
        print(f"{name} is late: {error}")


async def publish(url: str) -> None:
    """Put letters in, and see what becomes of them."""
    async with Worqr(url, worker_timeout=-1, worker_cleanup_interval=0.5) as worqr:
        events = worqr.events("letters")
        await begin_work(worqr)
        await worqr.enqueue("letters", ["letter 1", "letter 2", "letter 3"])
        print(f"there is work for {(await anext(events)).count}")
        ann = await begin(url, "ann")
        print(await told(ann))
        ann.kill()
        while await worqr.peek_queue("letters") != "letter 1":
            await anext(events)
        print("ann is dead; letter 1 is the next again")
        bob = await begin(url, "bob")
        done: list[Event] = []
        while len(done) < 3:
            event = await anext(events)
            done += [event] if event.type is EventType.DONE else []
        for event in done:
            print(await told(bob))
            print(f"{event.done.task} is {event.done.result}")
        print(f"waiting: {await worqr.count_queue('letters')}")
        bob.terminate()
        await asyncio.gather(ann.wait(), bob.wait())


async def begin(url: str, name: str) -> asyncio.subprocess.Process:
    """A subscriber in a process of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable, __file__, url, name, stdout=asyncio.subprocess.PIPE
    )


async def told(process: asyncio.subprocess.Process) -> str:
    """The next line that it says."""
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


def main() -> None:
    if len(sys.argv) == 3:
        asyncio.run(subscribe(*sys.argv[1:]))
        return
    with TemporaryDirectory() as folder:
        asyncio.run(publish(f"sqlite:///{folder}/jobs.db"))


if __name__ == "__main__":
    main()
