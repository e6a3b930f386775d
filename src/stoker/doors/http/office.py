"""The office: carries requests from the event loop to the desk, and the answers back.

What comes often (new jobs, outcomes, looks, claims) is gathered and carried out many at a time, in
one durable step; everything else is an errand for a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import NamedTuple, ParamSpec, TypeVar

from stoker.desk import Desk, Placement, Twin
from stoker.desk.clerk import Grants
from stoker.doors.ear import Ear
from stoker.doors.gather import Done, Gatherer
from stoker.doors.http.gate import Gate
from stoker.doors.http.observer import Observer
from stoker.doors.http.once import Once
from stoker.doors.http.register import Register
from stoker.doors.http.settings import Settings
from stoker.doors.http.waiting import Found, Waiting, Wish
from stoker.errors import Duplicate, LeaseLost, NotFound, SessionLost, StokerError
from stoker.kernel.job import Job
from stoker.kernel.outcome import Outcome, Released
from stoker.kernel.pacing import Pace
from stoker.store import Claim

logger = logging.getLogger("stoker.http")

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_ERRAND_THREADS = 8
_GATHERERS = 5
_LOOK_AROUND = 5.0
_LEARN = 2.0
_DRAIN = 0.01


class Told(NamedTuple):
    """What came of a job in a client's hands."""

    job_id: int
    lease: int
    outcome: Outcome


class Account(NamedTuple):
    """All that one client tells at once, and what it would like to have next."""

    told: Sequence[Told]
    wish: Wish | None = None


class Settled(NamedTuple):
    """What became of each job that was told of (None: it has simply ended), and the next ones."""

    results: list[Job | BaseException | None]
    jobs: Sequence[Job] | BaseException = ()


class Office:
    """One for all connections. Opened in the event loop that it serves."""

    def __init__(self, desk: Desk, settings: Settings) -> None:
        self.desk = desk
        self.settings = settings
        self.gate = Gate(settings)
        self.register = Register(desk)
        self.ready = False

    # -- from opening to closing -----------------------------------------------------------

    async def open(self) -> None:
        """Begin to serve."""
        self._loop = asyncio.get_running_loop()
        self._errands = ThreadPoolExecutor(_ERRAND_THREADS, "stoker-http-errand")
        self._pool = ThreadPoolExecutor(_GATHERERS, "stoker-http")
        self._under_way = 0
        self._placing: Gatherer[Job, Placement] = Gatherer(self._pool, self._place)
        self._reporting: Gatherer[Account, Settled] = Gatherer(self._pool, self._report)
        self._looking: Gatherer[int, Job] = Gatherer(self._pool, self._look)
        self._claiming: Gatherer[list[Wish], Found] = Gatherer(self._pool, self._claim)
        self._returning: Gatherer[Sequence[Job], None] = Gatherer(self._pool, self._take_back)
        self.waiting = Waiting(self._claiming.call, self.give_back, self.desk.store.now)
        self.observer = Observer(self.desk.store, self.run)
        self.once = Once(self.desk, self.run)
        await self.learn()
        self._ear = Ear(self.desk.store.bell, self._rung, "stoker-http")
        self._regular = [
            asyncio.create_task(self._every(_LOOK_AROUND, self._look_around)),
            asyncio.create_task(self._every(_LEARN, self.learn)),
        ]
        self.ready = True

    def stop_waiting(self) -> None:
        """Answer all who wait, and let nobody wait any more."""
        self.ready = False
        self.waiting.close()
        self.observer.close()

    async def close(self) -> None:
        """Let what is under way end, and stop."""
        self.stop_waiting()
        for task in self._regular:
            task.cancel()
        await asyncio.gather(*self._regular, return_exceptions=True)
        await self.observer.closed()
        while self._under_way or not self._idle():
            await asyncio.sleep(_DRAIN)
        await self._ear.close()
        self._pool.shutdown()
        self._errands.shutdown()

    def _idle(self) -> bool:
        claims = self._claiming.idle and self._returning.idle
        return claims and self._placing.idle and self._reporting.idle and self._looking.idle

    # -- what operations ask for -----------------------------------------------------------

    async def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Have something done in a thread."""
        self._under_way += 1
        try:
            return await self._loop.run_in_executor(self._errands, partial(work, *args, **kwargs))
        finally:
            self._under_way -= 1

    async def enqueue(
        self, job: Job, twin: Twin = Twin.REJECT, pace: Pace | None = None
    ) -> Placement:
        """Take in a job; if it has no pace of its own, in one step with those of others."""
        if pace is not None:
            placed = await self.run(self.desk.pacing.enqueue, job, pace, twin=twin)
        else:
            placed = await self._take_in(job, twin)
        self.observer.nudge()
        return placed

    def take_in(self, job: Job, done: Done[Placement]) -> None:
        """Take in a job, in one step with those of others; `done` is told what came of it."""

        def told(placed: Placement | BaseException) -> None:
            self.observer.nudge()
            done(placed)

        self._placing.call(job, told)

    async def _take_in(self, job: Job, twin: Twin) -> Placement:
        try:
            return await self._served(self._placing, job)
        except Duplicate:
            if twin is Twin.REJECT:
                raise
            return await self.run(self.desk.intake.enqueue, job, twin=twin)

    async def look(self, job_id: int) -> Job:
        """A job as it is now."""
        return await self._served(self._looking, job_id)

    async def report(self, told: Told) -> Job | None:
        """Report on a job, in one step with others; None: it has simply ended."""
        (result,) = (await self.settle(Account([told]))).results
        if isinstance(result, BaseException):
            raise result
        return result

    async def settle(self, account: Account) -> Settled:
        """Report on many jobs, and claim the next ones, in one step."""
        answer: asyncio.Future[Settled] = self._loop.create_future()
        self._reporting.call(account, partial(self._hand_over, answer))
        try:
            settled = await answer
        except asyncio.CancelledError:
            if not answer.cancelled() and answer.exception() is None:
                self._give_back_all(answer.result())
            raise
        self.observer.nudge()
        return settled

    def _hand_over(self, answer: asyncio.Future[Settled], settled: Settled | BaseException) -> None:
        if answer.done() and isinstance(settled, Settled):
            self._give_back_all(settled)
        _settle(answer, settled)

    def _give_back_all(self, settled: Settled) -> None:
        if settled.jobs and not isinstance(settled.jobs, BaseException):
            self.give_back(settled.jobs)

    def give_back(self, jobs: Sequence[Job]) -> None:
        """Nobody was there to take them."""
        self._returning.call(jobs, _log_failure)

    def _served(self, gatherer: Gatherer[T, R], item: T) -> asyncio.Future[R]:
        answer: asyncio.Future[R] = self._loop.create_future()
        gatherer.call(item, partial(_settle, answer))
        return answer

    # -- work, in threads ------------------------------------------------------------------

    def _place(self, jobs: list[Job]) -> list[Placement | BaseException]:
        placed = self.desk.orders.place_each(jobs)
        return [Placement(each, fresh=True) if isinstance(each, int) else each for each in placed]

    def _look(self, ids: list[int]) -> list[Job | BaseException]:
        jobs = self.desk.store.get(ids)
        return [jobs.get(job_id) or _missing(job_id) for job_id in ids]

    def held(self, job_id: int, lease: int) -> Job:
        """The job that a client has in hand; raises if it is no longer his."""
        found = _held(self.desk.store.get([job_id]), job_id, lease)
        if isinstance(found, StokerError):
            raise found
        return found

    def _report(self, accounts: list[Account]) -> list[Settled | BaseException]:
        """Everything that was told, and what is wished for, in one step."""
        wishes = [account.wish for account in accounts if account.wish is not None]
        told = [each for account in accounts for each in account.told]
        reported, granted = self._told(told, wishes)
        results, grants = iter(reported), iter(granted)
        return [
            Settled(
                list(islice(results, len(account.told))),
                () if account.wish is None else self._granted(next(grants)),
            )
            for account in accounts
        ]

    def _told(
        self, told: Sequence[Told], wishes: Sequence[Wish]
    ) -> tuple[list[Job | BaseException | None], Grants]:
        jobs = self.desk.store.get({each.job_id for each in told}) if told else {}
        found = [_held(jobs, each.job_id, each.lease) for each in told]
        ours = [i for i, job in enumerate(found) if isinstance(job, Job)]
        outcomes = [(job, told[i].outcome) for i in ours if isinstance(job := found[i], Job)]
        reported, grants = self.desk.report.many(outcomes, self._requests(wishes))
        results: list[Job | BaseException | None] = [*found]
        for i, result in zip(ours, reported, strict=True):
            results[i] = result
        return results, grants

    def _requests(self, wishes: Iterable[Wish]) -> list[Claim]:
        return [
            self.desk.dispatch.request(
                wish.queues, wish.limit, session=wish.session, visibility=wish.visibility
            )
            for wish in wishes
        ]

    def _claim(self, asks: list[list[Wish]]) -> list[Found | BaseException]:
        """Claim for many lines in one step; those who go on waiting learn when to ask again."""
        asked_at = self.desk.store.now()
        requests = self._requests(wish for ask in asks for wish in ask)
        grants = iter(self.desk.report.many((), requests)[1])
        found: list[Found | BaseException] = []
        for ask in asks:
            jobs = [self._granted(next(grants)) for _ in ask]
            due = None if all(jobs) else self.desk.dispatch.next_due(ask[0].queues, asked_at)
            found.append(Found(jobs, due))
        return found

    def _granted(self, grant: Sequence[Job] | None) -> Sequence[Job] | BaseException:
        try:
            return self.desk.dispatch.granted(grant)
        except SessionLost as error:
            return error

    def _take_back(self, batch: list[Sequence[Job]]) -> list[BaseException | None]:
        self.desk.report.many([(job, Released()) for jobs in batch for job in jobs])
        return [None] * len(batch)

    # -- hints that there is work ----------------------------------------------------------

    def _rung(self, names: set[str]) -> None:
        self.waiting.rung(names)
        self.observer.nudge()

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - the next time may be better
                logger.warning("the store is in trouble: %s", error)

    async def _look_around(self) -> None:
        """The bell is a hint, looking is the truth: now and then, once for all who wait."""
        if self.waiting.patient:
            self.waiting.rung(set(await self.run(self.desk.store.names, "*")))

    async def learn(self) -> None:
        """Hear of tokens that were added or removed."""
        self.gate.learn(await self.run(self.register.entries))


def _settle(answer: asyncio.Future[R], result: R | BaseException) -> None:
    if answer.done():
        return  # whoever asked is gone
    if isinstance(result, BaseException):
        answer.set_exception(result)
    else:
        answer.set_result(result)


def _missing(job_id: int) -> NotFound:
    return NotFound(f"there is no job {job_id} (any more); ended jobs are kept for a while only")


def _held(jobs: dict[int, Job], job_id: int, lease: int) -> Job | StokerError:
    job = jobs.get(job_id)
    if job is None:
        return _missing(job_id)
    if job.token != lease:
        return LeaseLost(f"job {job_id} is not yours (any more); stop working on it")
    return job


def _log_failure(found: BaseException | None) -> None:
    if found is not None:
        logger.error("jobs that nobody took could not be given back: %s", found)
