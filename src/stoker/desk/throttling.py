"""Asking throttlers, and doing as they say.

One asks at a time for a queue. The lock only saves questions asked in vain; what keeps answers
right is the revision of the throttler's memory, read before anything else is looked at. An answer
counts only if nobody else's has come since, and jobs start in the same step in which that is seen.

A claim takes jobs from the head of the line. So those that are held and stand before an admitted
one go aside first: they get a due time a little later, and their own is remembered.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from stoker.desk.clerk import Clerk, Decision
from stoker.desk.dispatch import Dispatch
from stoker.desk.throttle import Admitted, Deferred, Held, Rejected, Throttle, Throttler
from stoker.desk.throttle_line import Line, Page
from stoker.desk.throttle_memory import UNREADABLE, Aside, Memory, recall, remember
from stoker.errors import BadInput, IllegalMove, NotFound, StokerError
from stoker.kernel import rules
from stoker.kernel.change import Change, Write
from stoker.kernel.job import QUEUED, REPLY_PREFIX, RUNNING, WAITING, Job, State
from stoker.kernel.retry import failure_of
from stoker.kernel.window import is_open
from stoker.store import Claim, Filter
from stoker.store.choosing import Spot
from stoker.store.paging import every

logger = logging.getLogger("stoker.throttler")

MOST_CANDIDATES = 1000
"""Of so many a throttler is asked at once; of those behind them the next time."""
LOOK_AGAIN = 1_000_000
"""After so long a throttler is asked again about jobs that it holds."""
_AFTER_FAILURE = 5_000_000
_WHILE_BUSY = 50_000
_LOCK = "throttler:"
_LOCK_FOR = 2_000_000
_ASIDE_FOR = 60_000_000
_SOON = 1_000_000
_PAGE = 500
_MOST_REASONS = 10_000
_MOST_TOLD = 2000
"""Letters of an error that are kept."""

_REPLACE = msgspec.structs.replace


class Ruling(NamedTuple):
    """What a throttler said, to be carried out."""

    queue: str
    owner: str
    page: Page
    throttle: Throttle
    before: Memory
    revision: int

    @property
    def asked(self) -> Sequence[Job]:
        """The candidates as the store has them, in their order."""
        return self.page.jobs

    @property
    def unfinished(self) -> bool:
        """Is there room for others, who stand further back?"""
        return self.page.last is not None and len(self.admitted) < self.throttle.room

    @property
    def admitted(self) -> list[Job]:
        """The jobs that may start, as many as the worker can take."""
        return self.said(Admitted)[: self.throttle.room]

    def said(self, kind: type | tuple[type, ...]) -> list[Job]:
        """The jobs with such a verdict."""
        verdicts = self.throttle.verdicts
        return [job for job in self.asked if isinstance(verdicts.get(job.id, Held()), kind)]


class Asked(NamedTuple):
    """What came of a question."""

    ruling: Ruling | None = None
    pause: int | None = None
    """In how many microseconds to ask again, if not when something happens."""


class Throttling:
    """Between throttlers and the jobs of their queues."""

    def __init__(self, clerk: Clerk, dispatch: Dispatch) -> None:
        self._clerk = clerk
        self._opening = dispatch.opening

    # -- asking ----------------------------------------------------------------------------

    def ask(self, queue: str, throttler: Throttler, *, room: int, owner: str) -> Asked:
        """Ask which jobs may start, if there are any; a ruling has to be carried out soon."""
        store = self._clerk.store
        now = store.now()
        if not self._clerk.settings(queue).throttled or self._opening.opens_at(queue, now) != now:
            return Asked()
        if not any(view.counts[QUEUED] for view in store.survey([queue])):
            return Asked()
        if not store.hold(_LOCK + queue, owner, _LOCK_FOR):
            return Asked(pause=_WHILE_BUSY)
        asked = Asked()
        try:
            asked = self._ask(queue, throttler, room, owner)
        finally:
            if asked.ruling is None:
                store.hold(_LOCK + queue, owner, 0)
        return asked

    def _ask(self, queue: str, throttler: Throttler, room: int, owner: str) -> Asked:
        memory, revision = recall(self._clerk.store, queue)
        if memory.error is not None and memory.error.startswith(UNREADABLE):
            logger.error("the throttler of the queue %s: %s", queue, memory.error)
        settings = self._clerk.settings(queue)
        page = Line(self._clerk.store, queue, memory, settings).page(MOST_CANDIDATES)
        if not page.jobs and memory.behind is not None:
            memory = _REPLACE(memory, behind=None)
            page = Line(self._clerk.store, queue, memory, settings).page(MOST_CANDIDATES)
        if not page.jobs:
            return Asked()
        throttle = Throttle(
            queue,
            [_REPLACE(job, due_at=memory.own_due_at(job)) for job in page.jobs],
            self._running(queue),
            now=self._clerk.store.now(),
            room=room,
            state=_as_kept(memory.state),
            settings=settings,
        )
        ruling = Ruling(queue, owner, page, throttle, memory, revision)
        try:
            throttler(throttle)
            throttle.state = _as_kept(throttle.state)
            self._check_verdicts(ruling)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and _is_in_main_thread():
                raise  # somebody at the keyboard wants the whole process to end
            trace = _storable("".join(traceback.format_exception(error)))
            logger.error("the throttler of the queue %s failed; its jobs wait\n%s", queue, trace)
            self._keep_error(queue, memory, revision, error)
            return Asked(pause=_AFTER_FAILURE)
        return Asked(ruling, LOOK_AGAIN)

    def _running(self, queue: str) -> list[Job]:
        # In this order, lest one be missed that begins to wait meanwhile. Where nobody waits nobody
        # is looked for: not every store finds those of a queue by an index.
        jobs = {job.id: job for job in self._in_state(RUNNING, queue)}
        if any(view.counts[WAITING] for view in self._clerk.store.survey([queue])):
            waiting = self._in_state(WAITING, queue)
            jobs |= {j.id: j for j in waiting if (j.waits_for or "").startswith(REPLY_PREFIX)}
        return list(jobs.values())

    def _in_state(self, state: State, queue: str) -> Iterator[Job]:
        return every(self._clerk.store, Filter(states=(state,), queue=queue))

    def _keep_error(self, queue: str, memory: Memory, revision: int, error: BaseException) -> None:
        told = _storable(f"{type(error).__name__}: {failure_of(error).message}")[:_MOST_TOLD]
        if memory.error != told:
            self._clerk.transact([remember(queue, _REPLACE(memory, error=told), revision)])

    # -- carrying out ----------------------------------------------------------------------

    def give_up(self, ruling: Ruling) -> None:
        """The ruling will not be carried out."""
        self._clerk.store.hold(_LOCK + ruling.queue, ruling.owner, 0)

    def carry_out(self, ruling: Ruling, *, session: int | None = None) -> list[Job]:
        """Do as the throttler said; returns the jobs that have started."""
        try:
            return self._carry_out(ruling, session)
        finally:
            self.give_up(ruling)

    def _carry_out(self, ruling: Ruling, session: int | None) -> list[Job]:
        admitted = ruling.admitted
        ahead = self._in_the_way(ruling) if admitted else []
        aside = _to_set_aside(ruling, ahead, admitted, self._clerk.store.now())
        known = {**ruling.before.aside, **aside}
        memory = _memory_after(ruling, known, admitted)
        unchanged = memory == _REPLACE(ruling.before, aside=known)
        if unchanged and not (admitted or ruling.said((Deferred, Rejected))):
            return []
        revision = self._note_places(ruling, aside)
        if revision is None:
            return []
        self._move_away(ahead, aside)
        writes = [*_moves(ruling, aside, admitted), remember(ruling.queue, memory, revision)]
        claims = [self._claim(ruling.queue, len(admitted), session)] if admitted else []
        answer = self._clerk.transact(writes, claims)
        granted = (answer.grants[0] or ()) if admitted else ()
        if not answer.receipts[-1].ok:
            self._undo(granted, aside)
            return []
        self._turn_away(ruling)
        wanted = {job.id for job in admitted}
        self._set_aside([job for job in granted if job.id not in wanted], memory, revision + 1)
        return self._started([job for job in granted if job.id in wanted])

    def _in_the_way(self, ruling: Ruling) -> list[Job]:
        """Those who are not asked about this time, and would be claimed first."""
        settings = ruling.throttle.settings
        line = Line(self._clerk.store, ruling.queue, ruling.before, settings)
        return line.in_the_way(ruling.page)

    def _move_away(self, ahead: Sequence[Job], aside: Mapping[int, Aside]) -> None:
        """There may be many of these: not all in one step."""
        for at in range(0, len(ahead), _PAGE):
            self._clerk.attempt(_moved_to(ahead[at : at + _PAGE], aside))

    def _note_places(self, ruling: Ruling, aside: dict[int, Aside]) -> int | None:
        """Remember where jobs stand in line, before they leave it; the revision of the memory then,
        None if the ruling has been overtaken."""
        queue, revision = ruling.queue, ruling.revision
        if not aside:
            return revision if recall(self._clerk.store, queue)[1] == revision else None
        noted = _REPLACE(ruling.before, aside={**ruling.before.aside, **aside})
        (receipt,) = self._clerk.transact([remember(queue, noted, revision)]).receipts
        return revision + 1 if receipt.ok else None

    def _undo(self, granted: Sequence[Job], aside: dict[int, Aside]) -> None:
        """Somebody else has decided in this very moment: all go back to their places."""
        now, moved = self._clerk.store.now(), self._clerk.store.get(aside).values()
        back = [rules.release(job, now=now) for job in granted]
        back += [
            Change(writes=(Write(job, {"due_at": aside[job.id].due_at}),))
            for job in moved
            if job.state is QUEUED and job.due_at == aside[job.id].until
        ]
        self._clerk.attempt(back)

    def _claim(self, queue: str, limit: int, session: int | None) -> Claim:
        return Claim((queue,), limit, self._clerk.token(), session)

    def _started(self, jobs: Sequence[Job]) -> list[Job]:
        """Those of the jobs whose window, or whose queue, has not closed in the very moment."""
        late = [job for job in jobs if not self._was_open(job)]
        now = self._clerk.store.now()
        self._clerk.attempt([rules.release(job, now=now, due_at=job.due_at) for job in late])
        return [job for job in jobs if job not in late]

    def _was_open(self, job: Job) -> bool:
        at, windows = job.started_at or 0, job.policy.windows
        return self._opening.opens_at(job.queue, at) == at and (
            windows is None or is_open(windows, at)
        )

    def _set_aside(self, strangers: Sequence[Job], memory: Memory, revision: int) -> None:
        """Jobs that were claimed though nobody had been asked about them, as they stood before
        those that were admitted: they are candidates from now on."""
        if not strangers:
            return
        now = self._clerk.store.now()
        queued = [_REPLACE(job, state=QUEUED) for job in strangers]
        aside = {job.id: _aside(job, memory.own_due_at(job), now) for job in queued}
        noted = remember(
            strangers[0].queue, _REPLACE(memory, aside={**memory.aside, **aside}), revision
        )
        if not self._clerk.transact([noted]).receipts[0].ok:
            aside = {}
        self._clerk.attempt(
            [
                rules.release(job, now=now, due_at=aside[job.id].until if aside else None)
                for job in strangers
            ]
        )

    def _turn_away(self, ruling: Ruling) -> None:
        verdicts = ruling.throttle.verdicts
        decisions = [
            Decision(job.id, partial(self._turned_away, verdict=verdicts[job.id]))
            for job in ruling.said((Deferred, Rejected))
        ]
        for result in self._clerk.decide_all(decisions).results:
            # Whoever runs, has ended or is gone was quicker, and that is all right.
            if isinstance(result, StokerError) and not isinstance(result, IllegalMove | NotFound):
                logger.error("what a throttler of %s said cannot be done: %s", ruling.queue, result)
                self._keep_error(ruling.queue, *recall(self._clerk.store, ruling.queue), result)

    def _check_verdicts(self, ruling: Ruling) -> None:
        """What cannot be done is an error of whoever said it, and then nothing is done at all."""
        for job in ruling.said((Deferred, Rejected)):
            self._turned_away(job, ruling.throttle.verdicts[job.id])

    def _turned_away(self, job: Job, verdict: Deferred | Rejected) -> Change:
        if isinstance(verdict, Deferred):
            return rules.put_off(job, until=verdict.until, reason=verdict.reason)
        now, settings = self._clerk.store.now(), self._clerk.settings(job.queue)
        return rules.refuse(job, now=now, reason=verdict.reason, settings=settings)


def _as_kept(state: object) -> Any:
    """A state as it comes back from the store: whatever its throttler does to it later is of no
    account."""
    try:
        return msgspec.json.decode(msgspec.json.encode([state]))[0]
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"the state of a throttler must be what JSON can hold: {error}") from error


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _is_in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _aside(job: Job, due_at: int, now: int) -> Aside:
    return Aside(due_at, rules.fitted(job.policy, now + _ASIDE_FOR), job.rank)


def _to_set_aside(
    ruling: Ruling, ahead: Sequence[Job], admitted: Sequence[Job], now: int
) -> dict[int, Aside]:
    """The jobs that a claim would give instead of those that are admitted. Where keys take turns
    that may be any of them."""
    if not admitted:
        return {}
    last = ruling.asked.index(admitted[-1])
    others = ruling.asked if ruling.throttle.settings.fair else ruling.asked[:last]
    chosen = {job.id for job in admitted}
    return {
        job.id: _aside(job, ruling.before.own_due_at(job), now)
        for job in (*ahead, *others)
        if job.id not in chosen and job.due_at <= now + _SOON
    }


def _memory_after(ruling: Ruling, aside: Mapping[int, Aside], admitted: Sequence[Job]) -> Memory:
    gone = {job.id for job in (*admitted, *ruling.said((Deferred, Rejected)))}
    asked, now = {job.id for job in ruling.asked}, ruling.throttle.now
    kept = {
        job_id: stand
        for job_id, stand in aside.items()
        # One that was not asked about may be on its way aside, or it is not its turn to be asked.
        if job_id not in gone
        and (
            job_id in asked
            or stand.until > now
            or not ruling.page.covers(Spot(stand.rank, stand.due_at, job_id))
        )
    }
    behind = ruling.page.last if ruling.unfinished else None
    return Memory(ruling.throttle.state, kept, _reasons(ruling, asked), behind)


def _reasons(ruling: Ruling, asked: Container[int]) -> dict[int, str]:
    """Why jobs are held: those that were asked about now, and before on the way to them."""
    verdicts = ruling.throttle.verdicts
    reasons = {
        job.id: verdict.reason
        for job in ruling.asked
        if isinstance(verdict := verdicts.get(job.id), Held) and verdict.reason
    }
    if ruling.before.behind is not None:
        former = ruling.before.reasons.items()
        reasons |= {job_id: why for job_id, why in former if job_id not in asked}
    return dict(islice(reasons.items(), _MOST_REASONS))


def _moves(ruling: Ruling, aside: Mapping[int, Aside], admitted: Sequence[Job]) -> list[Change]:
    """Other due times: for those that go aside, and those that come back to start."""
    back = {job.id: Aside(0, ruling.before.own_due_at(job)) for job in admitted}
    return [*_moved_to(ruling.asked, aside), *_moved_to(admitted, back)]


def _moved_to(jobs: Sequence[Job], places: Mapping[int, Aside]) -> list[Change]:
    return [
        Change(writes=(Write(job, {"due_at": places[job.id].until}),))
        for job in jobs
        if job.id in places and job.due_at != places[job.id].until
    ]
