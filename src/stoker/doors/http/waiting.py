"""Those who wait for jobs: one listener for all, and nobody polls.

All who ask for the same queues stand in one line. Whoever comes asks once by himself. When the bell
rings for one of the queues, or the next job falls due, the line asks from its head: first for one,
then for twice as many as long as all of them got something. So a job that arrives costs a claim or
two, however many wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from stoker.doors.signpost import Signpost
from stoker.kernel.job import Job

Queues = tuple[str, ...]

_MOST_AT_ONCE = 64


class Wish(NamedTuple):
    """What one client asks for."""

    queues: Queues
    limit: int
    session: int | None
    visibility: int | None


class Found(NamedTuple):
    """What came of some wishes for the same queues."""

    grants: Sequence[Sequence[Job] | BaseException]
    next_due: int | None = None


Ask = Callable[[list[Wish], Callable[[Found | BaseException], None]], None]
"""Claim for all of them in one step; the answer comes back in the loop."""


class Seeker:
    """One client until it is answered."""

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self.patient = True
        self.answer: asyncio.Future[Sequence[Job]] = asyncio.get_running_loop().create_future()

    def take(self, jobs: Sequence[Job] | BaseException) -> bool:
        """Answer it; False: it is gone."""
        if self.answer.done():
            return False
        if isinstance(jobs, BaseException):
            self.answer.set_exception(jobs)
        else:
            self.answer.set_result(jobs)
        return True


class Line:
    """All who ask for the same queues, in the order in which they came."""

    def __init__(self, queues: Queues) -> None:
        self.queues = queues
        self.waiting: dict[Seeker, None] = {}
        self.new: list[Seeker] = []
        self.asking: list[Seeker] = []
        self.rung = False
        self.step = 1
        """How many of those who wait ask when it rings."""
        self.timer: asyncio.TimerHandle | None = None

    def next_round(self) -> list[Seeker]:
        """Who asks now: the foremost if it rang, and all who have just come."""
        foremost = list(islice(self.waiting, self.step)) if self.rung else []
        new = [seeker for seeker in self.new if not seeker.answer.done()]
        self.new, self.rung = [], False
        for seeker in new:
            self.waiting[seeker] = None
        return [*foremost, *new]

    def after_round(self, *, lucky: bool) -> None:
        """Go on at once where everybody got something: there may be more."""
        self.step = min(self.step * 2, _MOST_AT_ONCE) if lucky else 1
        self.rung = self.rung or lucky

    @property
    def empty(self) -> bool:
        """Does nobody stand here?"""
        return not (self.waiting or self.new or self.asking)


class Waiting:
    """All lines. `ask` claims, `give_back` takes back what nobody is there to take."""

    def __init__(
        self, ask: Ask, give_back: Callable[[Sequence[Job]], None], now: Callable[[], int]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._ask = ask
        self._give_back = give_back
        self._now = now
        self._lines: dict[Queues, Line] = {}
        self._signpost: Signpost[Line] = Signpost()
        self._closing = False

    @property
    def patient(self) -> bool:
        """Does anybody wait?"""
        return bool(self._lines)

    async def claim(self, wish: Wish, seconds: float) -> Sequence[Job]:
        """Jobs as soon as there are any; none if there are none in time."""
        seeker = Seeker(wish)
        line = self._lines.get(wish.queues) or self._put_up(wish.queues)
        line.new.append(seeker)
        patience = self._loop.call_later(seconds, self._give_up, seeker, line)
        if self._closing or seconds <= 0:
            seeker.patient = False
        self._work(line)
        try:
            return await seeker.answer
        except asyncio.CancelledError:
            if not seeker.answer.cancelled() and seeker.answer.exception() is None:
                self._give_back(seeker.answer.result())
            raise
        finally:
            patience.cancel()
            line.waiting.pop(seeker, None)
            self._take_down(line)

    def rung(self, names: Iterable[str]) -> None:
        """There may be work in these queues."""
        for line in self._signpost.concerned(names):
            self._ring(line)

    def close(self) -> None:
        """Nobody may wait any longer."""
        self._closing = True
        for line in list(self._lines.values()):
            for seeker in [*line.waiting, *line.new]:
                self._give_up(seeker, line)

    # -- lines that come and go ------------------------------------------------------------

    def _put_up(self, queues: Queues) -> Line:
        line = self._lines[queues] = Line(queues)
        self._signpost.add(queues, line)
        return line

    def _take_down(self, line: Line) -> None:
        if not line.empty or self._lines.get(line.queues) is not line:
            return
        del self._lines[line.queues]
        self._signpost.remove(line.queues, line)
        if line.timer is not None:
            line.timer.cancel()

    def _give_up(self, seeker: Seeker, line: Line) -> None:
        """Its time is up; but while it asks it may still get something."""
        seeker.patient = False
        if seeker not in line.asking and seeker not in line.new:
            line.waiting.pop(seeker, None)
            seeker.take(())

    # -- one line at work ------------------------------------------------------------------

    def _ring(self, line: Line) -> None:
        line.rung = True
        self._work(line)

    def _work(self, line: Line) -> None:
        if line.asking:
            return
        line.asking = line.next_round()
        if line.asking:
            wishes = [seeker.wish for seeker in line.asking]
            self._ask(wishes, lambda found: self._served(line, found))
        else:
            self._take_down(line)

    def _served(self, line: Line, found: Found | BaseException) -> None:
        asking, line.asking = line.asking, []
        if isinstance(found, BaseException):
            found = Found([found] * len(asking))
        for seeker, grant in zip(asking, found.grants, strict=True):
            self._serve(line, seeker, grant)
        line.after_round(lucky=all(found.grants))
        if found.next_due is not None:
            self._wake(line, found.next_due)
        self._work(line)

    def _serve(self, line: Line, seeker: Seeker, grant: Sequence[Job] | BaseException) -> None:
        if isinstance(grant, BaseException):
            line.waiting.pop(seeker, None)
            seeker.take(grant)
        elif grant or not seeker.patient:
            line.waiting.pop(seeker, None)
            if not seeker.take(grant) and grant:
                self._give_back(grant)

    def _wake(self, line: Line, due: int) -> None:
        if line.timer is not None:
            line.timer.cancel()
        seconds = max(0.0, (due - self._now()) / 1e6)
        line.timer = self._loop.call_later(seconds, self._ring, line)
