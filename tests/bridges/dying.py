"""A bridge whose process is killed right after the first errand: nobody has told the broker."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from stoker.bridges import Message, open_bridge
from stoker.desk import Desk
from stoker.store.open import open_store


async def main(store: str, url: str) -> None:
    bridge = open_bridge(Desk(open_store(store)), url)
    errand = bridge._errand

    def die_afterwards(message: Message) -> str:
        errand(message)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("not reached")

    bridge._errand = die_afterwards
    await bridge.open()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
