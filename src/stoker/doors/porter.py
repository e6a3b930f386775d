"""The porter: opens doors, sees to the chores meanwhile, and shuts everything in the end.

A door is whatever can be opened and closed; any number of them serve one store in one process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Protocol

from stoker.desk import Desk
from stoker.errors import StokerError
from stoker.watch import give_up_turn
from stoker.watch.rounds import Rounds
from stoker.worker.loops import loop_factory

logger = logging.getLogger("stoker.doors")

_CHORES_EVERY = 1.5
# A thread that comes back from the disk must not wait for the loop for Python's usual 5 ms.
_SWITCH_SECONDS = 0.001


class Door(Protocol):
    """A way in for programs of other languages."""

    async def open(self) -> str:
        """Begin to serve; tells what and where, as in `bedrock on 127.0.0.1:8888`."""

    async def close(self) -> None:
        """Answer everybody who is here, and stop."""


def keep_open(desk: Desk, doors: Sequence[Door], announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; a second one ends the process at once."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    _allow_many_connections()
    with _chores(desk), asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(doors, announce))


async def _serve(doors: Sequence[Door], announce: Callable[[str], None]) -> None:
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    opened: list[Door] = []
    try:
        for door in doors:
            where = await door.open()
            opened.append(door)
            announce(where)
        await told.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        for door in reversed(opened):
            await door.close()


@contextmanager
def _chores(desk: Desk) -> Iterator[None]:
    """Have the chores done, as far as nobody else does them."""
    over = Event()
    owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    rounds = Rounds(desk.clerk, owner, every=round(_CHORES_EVERY * 1e6))
    thread = Thread(target=_go_round, args=(rounds, over), name="stoker-chores", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        try:
            give_up_turn(desk.clerk, owner)
        except StokerError as error:
            logger.warning("the turn at the chores could not be given up: %s", error)


def _go_round(rounds: Rounds, over: Event) -> None:
    while not over.wait(_CHORES_EVERY):
        try:
            rounds.make()
        except Exception as error:  # noqa: BLE001 - there will be others to do
            logger.warning("the chores did not get done: %s", error)


def _allow_many_connections() -> None:
    """Each takes a file descriptor, of which a process has few unless it asks for more."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # then what there is has to do
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
