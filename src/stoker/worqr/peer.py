"""A peer: its life, its events, and what it has in hand."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, NamedTuple, Self

import msgspec

from stoker.desk import Desk
from stoker.errors import Refused
from stoker.store import Store
from stoker.store.open import DEFAULT_STORE, open_store
from stoker.worqr.acts import Acts
from stoker.worqr.counter import Counter
from stoker.worqr.events import Event, EventType
from stoker.worqr.forms import Names
from stoker.worqr.hands import Hands
from stoker.worqr.listeners import Callback, Listeners, Topic
from stoker.worqr.settings import Settings, from_variables, read_file
from stoker.worqr.watchman import Told, Watchman


class Office(NamedTuple):
    """All that an open peer works with."""

    desk: Desk
    acts: Acts
    counter: Counter
    watchman: Watchman


class Peer:
    """Opens by itself when it is first used, and lives on the event loop that used it."""

    def __init__(self, store: str | Store | None = None, **options: Any) -> None:
        self._store = store
        self._settings = Settings(**options)
        self._names = Names(self._settings.prefix)
        self._hands = Hands()
        self._listeners = Listeners()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._office: Office | None = None
        self._closed = False
        self._opening = asyncio.Lock()
        self._moving = asyncio.Lock()
        self._metronome: asyncio.Task[None] | None = None

    @classmethod
    def from_env(cls, path: str | os.PathLike[str] | None = None) -> Self:
        """A peer set up by the environment, and by an environment file where that says nothing.

        STOKER_STORE names the store; WORQR_PREFIX, WORQR_WORKER_TIMEOUT and so on are the options.
        """
        variables = {**(read_file(path) if path is not None else {}), **os.environ}
        return cls(variables.get("STOKER_STORE") or None, **from_variables(variables))

    # -- life ------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Open the store and begin to look after the other peers."""
        await self._at()
        return self

    async def _at(self) -> Office:
        if self._office is None:
            async with self._opening:
                if self._office is None:
                    self._office = await self._opened()
        return self._office

    async def _opened(self) -> Office:
        if self._closed:
            raise Refused("this peer is closed; make a new one")
        self._loop = asyncio.get_running_loop()
        desk = Desk(await asyncio.to_thread(self._open_store))
        acts = Acts(desk, self._names, self._settings)
        watchman = Watchman(desk, self._names, self._settings, self._told())
        watchman.start()
        if self._settings.debug_mode:
            self._metronome = asyncio.create_task(self._measure())
        return Office(desk, acts, Counter(desk, self._loop), watchman)

    def _told(self) -> Told:
        """What the watchman tells in its thread is seen to on the event loop."""
        return Told(
            event=lambda event: self._in_loop(lambda: self._tell(event)),
            failed=lambda session: self._in_loop(lambda: self._fail(session)),
            cancelled=lambda ids: self._in_loop(lambda: self._tell_of_cancels(ids)),
        )

    def _open_store(self) -> Store:
        if self._store is None or isinstance(self._store, str):
            return open_store(self._store or os.environ.get("STOKER_STORE") or DEFAULT_STORE)
        return self._store

    async def close(self) -> None:
        """Give back what is in hand, tidy up, and stop."""
        self._closed = True
        office, self._office = self._office, None
        if office is not None:
            try:
                await self._leave(office)
            finally:
                await self._shut(office)
        self._listeners.close()

    async def _leave(self, office: Office) -> None:
        session = self._hands.session
        self._hands.empty()
        if session is not None:
            await office.counter.do(lambda: office.acts.retire(session))
        await office.counter.do(office.desk.store.tidy)

    async def _shut(self, office: Office) -> None:
        if self._metronome is not None:
            self._metronome.cancel()
        office.watchman.stop()
        await asyncio.to_thread(office.watchman.join)
        await office.counter.close()
        if self._store is None or isinstance(self._store, str):
            await asyncio.to_thread(office.desk.store.close)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- events ----------------------------------------------------------------------------

    def on(self, queue: Topic, callback: Callback) -> None:
        """Call a function, plain or async, with each event of a queue.

        None stands for what happens to the peer itself (failed, error, debug), ... for everything.
        A queue has events once the worker works on it.
        """
        self._listeners.on(queue, callback)

    def off(self, queue: Topic, callback: Callback) -> None:
        """Call it no more."""
        self._listeners.off(queue, callback)

    def events(self, queue: Topic = ...) -> AsyncIterator[Event]:
        """The events of a queue, or all, from this call on; ends when the peer is closed."""
        return self._listeners.stream(queue)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self.events()

    def _in_loop(self, act: Callable[[], None]) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is gone, and so is everybody who listened
            self._loop.call_soon_threadsafe(act)

    def _tell(self, event: Event) -> None:
        if event.queue is not None and event.queue not in self._hands.queues:
            return
        if event.queue is not None and event.type is EventType.CANCEL:
            self._hands.note_cancel(event.queue, event.message)
        self._listeners.tell(event)

    def _tell_of_cancels(self, job_ids: tuple[int, ...]) -> None:
        for queue, task in list(self._hands.untold(job_ids)):
            self._tell(Event(queue, EventType.CANCEL, task))

    def _fail(self, session: int) -> None:
        """The worker was taken for dead: nothing it has in hand is its own any more."""
        if session == self._hands.session:
            self._hands.empty()
            self._watch()
            self._listeners.tell(Event(None, EventType.FAILED, self._settings.worker_id))

    def _watch(self) -> None:
        """Let the watchman know what is to be watched."""
        if self._office is not None:
            watchman = self._office.watchman
            watchman.session = self._hands.session
            watchman.queues = frozenset(map(self._names.full, self._hands.queues))
            watchman.wake()

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(self._settings.debug_interval)
            ages = self._hands.ages()
            told = msgspec.json.encode({"jobCount": len(ages), "processes": ages}).decode()
            self._listeners.tell(Event(None, EventType.DEBUG, told))
