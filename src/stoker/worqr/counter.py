"""A thread that takes what the application wants done to the desk, many at a time.

Whatever was asked for while one batch was on its way goes with the next: arrivals share a commit,
ends and takings share another. All else is done one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, TypeVar, cast

from stoker.desk import Desk
from stoker.desk.announced import Arrival, Ending
from stoker.errors import SessionLost
from stoker.kernel.change import NOTHING
from stoker.kernel.job import Job
from stoker.kernel.outcome import Released
from stoker.store import Claim

_MOST = 500

T = TypeVar("T")


class Taking(NamedTuple):
    """The wish for a task of a queue, by its whole name."""

    queue: str
    session: int


Act = Callable[[], Any]
Wish = Arrival | Ending | Taking | Act


class _Errand(NamedTuple):
    wish: Wish
    future: asyncio.Future[Any]


class Counter:
    """The counter at which one event loop has its business done."""

    def __init__(self, desk: Desk, loop: asyncio.AbstractEventLoop) -> None:
        self._desk = desk
        self._loop = loop
        self._errands: queue.SimpleQueue[_Errand | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="worqr-counter", daemon=True)
        self._thread.start()

    async def do(self, act: Callable[[], T]) -> T:
        """Have anything done that blocks."""
        return cast("T", await self._ask(act))

    async def arrive(self, arrival: Arrival) -> None:
        """Have tasks taken in."""
        await self._ask(arrival)

    async def end(self, ending: Ending) -> None:
        """Have it reported what came of a task."""
        await self._ask(ending)

    async def take(self, taking: Taking) -> Job | None:
        """Have a task taken, if there is one."""
        return cast("Job | None", await self._ask(taking))

    async def close(self) -> None:
        """Do what was asked for, and end."""
        self._errands.put(None)
        await asyncio.to_thread(self._thread.join)

    def _ask(self, wish: Wish) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        self._errands.put(_Errand(wish, future))
        return future

    # -- in the thread ---------------------------------------------------------------------

    def _run(self) -> None:
        going = True
        while going:
            errands, going = self._gathered()
            self._settle(errands, self._served([errand.wish for errand in errands]))

    def _gathered(self) -> tuple[list[_Errand], bool]:
        """What was asked for by now, of which there is something; and whether to go on."""
        errands: list[_Errand] = []
        errand = self._errands.get()
        while errand is not None:
            errands.append(errand)
            if len(errands) == _MOST:
                return errands, True
            try:
                errand = self._errands.get_nowait()
            except queue.Empty:
                return errands, True
        return errands, False

    def _served(self, wishes: Sequence[Wish]) -> list[Any]:
        """What came of each wish: a value, or an exception."""
        results: dict[int, Any] = {}
        for kinds, serve in ((Arrival, self._take_in), ((Ending, Taking), self._exchange)):
            places = [i for i, wish in enumerate(wishes) if isinstance(wish, kinds)]
            if places:
                found = _attempt(partial(serve, [wishes[i] for i in places]))
                failed = isinstance(found, BaseException)
                results |= {i: found if failed else found[n] for n, i in enumerate(places)}
        for i, wish in enumerate(wishes):
            if i not in results:
                results[i] = _attempt(cast("Act", wish))
        return [results[i] for i in range(len(wishes))]

    def _take_in(self, arrivals: Sequence[Any]) -> list[Any]:
        return list(self._desk.announced.enqueue_each(arrivals))

    def _exchange(self, wishes: Sequence[Any]) -> list[Any]:
        """Report what came of tasks, and take others, those of a queue under one lease."""
        endings = [wish for wish in wishes if isinstance(wish, Ending)]
        wanted: dict[Taking, int] = {}
        for wish in wishes:
            if isinstance(wish, Taking):
                wanted[wish] = wanted.get(wish, 0) + 1
        claims = [self._claim(taking, limit) for taking, limit in wanted.items()]
        ended, grants = self._desk.announced.report_each(endings, claims)
        granted = [grant and self._desk.dispatch.granted(grant) for grant in grants]
        taken = {taking: _jobs(grant) for taking, grant in zip(wanted, granted, strict=True)}
        results = iter(ended)
        return [next(results) if isinstance(wish, Ending) else next(taken[wish]) for wish in wishes]

    def _claim(self, taking: Taking, limit: int) -> Claim:
        queues = self._desk.dispatch.opening.claimable([taking.queue])
        return Claim(queues, limit, self._desk.clerk.token(), taking.session)

    def _settle(self, errands: Sequence[_Errand], results: Sequence[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone, and nobody waits
            self._loop.call_soon_threadsafe(self._answer, errands, results)

    # -- in the loop -----------------------------------------------------------------------

    def _answer(self, errands: Sequence[_Errand], results: Sequence[Any]) -> None:
        for errand, result in zip(errands, results, strict=True):
            if errand.future.done():
                if isinstance(errand.wish, Taking) and isinstance(result, Job):
                    self._ask(Ending(result, Released(), NOTHING))  # nobody waits for it any more
            elif isinstance(result, BaseException):
                errand.future.set_exception(result)
            else:
                errand.future.set_result(result)


def _attempt(act: Act) -> Any:
    try:
        return act()
    except BaseException as error:  # noqa: BLE001 - handed to whoever waits, who raises it
        return error


def _jobs(grant: Sequence[Job] | None) -> Iterator[Job | SessionLost | None]:
    """The jobs of a grant one by one, and then nothing for ever."""
    if grant is None:
        yield from repeat(SessionLost("this worker was taken for dead; start it again"))
    yield from grant or ()
    yield from repeat(None)
