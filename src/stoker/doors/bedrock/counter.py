"""The counter: carries out what commands come down to, and answers.

It lives in the event loop; whatever touches the store happens in threads, in batches by kind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from stoker.desk import Desk
from stoker.desk.clerk import Decision
from stoker.doors.bedrock import words
from stoker.doors.bedrock.commands import created
from stoker.doors.bedrock.handout import Ask, Found, Issue
from stoker.doors.bedrock.intents import Decide, Errand, Intent, Lines, Look, Place
from stoker.doors.bedrock.leases import Copies, LeaseWatch
from stoker.doors.bedrock.protocol import Reply
from stoker.doors.bedrock.refusals import TROUBLE, refusal_for
from stoker.doors.bedrock.waiting import Client, Seeker, Waiting
from stoker.doors.ear import Ear
from stoker.doors.gather import Gatherer
from stoker.errors import NotFound, StokerError
from stoker.kernel.job import RUNNING, Job
from stoker.watch.recover import recover

logger = logging.getLogger("stoker.bedrock")

_ERRAND_THREADS = 16
_LOOK = 5.0
_DRAIN = 0.01
_DONE = Reply(wrote=True)


class Counter:
    """One for all connections of a door."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._loop = asyncio.get_running_loop()
        self._errands = ThreadPoolExecutor(_ERRAND_THREADS, "stoker-bedrock-errand")
        self._under_way = 0
        self._copies = Copies()
        self._pool = ThreadPoolExecutor(5, "stoker-bedrock")  # one for each that gathers
        self._issue = Issue(desk)
        self._placing: Gatherer[Job, int] = Gatherer(self._pool, self._place)
        self._settling: Gatherer[Decision, Job] = Gatherer(self._pool, self._settle)
        self._looking: Gatherer[int, Job] = Gatherer(self._pool, self._look)
        self._claiming: Gatherer[Ask, Found] = Gatherer(self._pool, self._issue.serve)
        self._returning: Gatherer[Sequence[Job], None] = Gatherer(self._pool, self._take_back)
        self._waiting = Waiting(self._claiming.call, self.give_back, desk.store.now)
        self._leases = LeaseWatch(desk.store.now, self._lease_ended)
        self._look_again = self._loop.call_later(_LOOK, self._look_around)
        self._ear = Ear(desk.store.bell, self._waiting.rung, "stoker-bedrock")

    def carry_out(self, intent: Intent, client: Client) -> Seeker | None:
        """Do what is to be done and answer, now or later. Gives who is to be told if the client
        goes away meanwhile."""
        if isinstance(intent, Reply):
            client.answer(intent)
        elif isinstance(intent, Place):
            self._placing.call(intent.job, lambda found: self._placed(client, found))
        elif isinstance(intent, Decide):
            lines = intent.lines
            decision = intent.decision._replace(seen=self._copies.pop(intent.decision.job_id))
            self._settling.call(decision, lambda found: self._told(client, found, lines))
        elif isinstance(intent, Look):
            shown = intent.shown
            self._looking.call(intent.job_id, lambda found: self._seen(client, found, shown))
        elif isinstance(intent, Errand):
            self._send(intent, client)
        else:
            return self._waiting.seek(client, intent)
        return None

    def waiting(self) -> int:
        """How many clients wait for jobs."""
        return self._waiting.count

    def leave(self, seeker: Seeker) -> None:
        """A client that asked for jobs is gone."""
        self._waiting.leave(seeker)

    def handed(self, jobs: Sequence[Job]) -> None:
        """These jobs have been handed over."""
        self._leases.note(jobs)
        self._copies.keep(jobs)

    def give_back(self, jobs: Sequence[Job]) -> None:
        """These jobs could not be handed over."""
        self._returning.call(jobs, _log_failure)

    def stop_waiting(self) -> None:
        """Answer all who wait, and let nobody wait any more."""
        self._waiting.close()

    async def close(self) -> None:
        """Let what is under way end, and stop."""
        self._look_again.cancel()
        self._leases.close()
        gatherers = (self._placing, self._settling, self._claiming, self._looking, self._returning)
        while self._under_way or not all(gatherer.idle for gatherer in gatherers):
            await asyncio.sleep(_DRAIN)
        if self._issue.troubled:
            await self._loop.run_in_executor(self._errands, self._put_right)
        await self._ear.close()
        self._pool.shutdown()
        self._errands.shutdown()

    # -- answers, in the loop --------------------------------------------------------------

    def _placed(self, client: Client, found: int | BaseException) -> None:
        if isinstance(found, int):
            client.answer(created(found))
        else:
            client.fail(found)

    def _told(self, client: Client, found: Job | BaseException, lines: Lines) -> None:
        if isinstance(found, BaseException):
            client.answer(failed(found, lines))
            return
        if found.state is RUNNING:
            self._copies.keep([found])
        client.answer(_DONE)

    def _seen(
        self, client: Client, found: Job | BaseException, shown: Callable[[Job], Reply]
    ) -> None:
        if isinstance(found, BaseException):
            client.fail(found)
        else:
            client.answer(shown(found))

    def _send(self, errand: Errand, client: Client) -> None:
        self._under_way += 1
        self._errands.submit(self._run, errand, client)

    def _back(self, client: Client, reply: Reply) -> None:
        self._under_way -= 1
        client.answer(reply)

    # -- work, in threads ------------------------------------------------------------------

    def _place(self, jobs: list[Job]) -> list[int | BaseException]:
        return list(self._desk.orders.place_each(jobs))

    def _settle(self, decisions: list[Decision]) -> list[Job | BaseException]:
        return list(self._desk.byhand.settle(decisions))

    def _look(self, ids: list[int]) -> list[Job | BaseException]:
        jobs = self._desk.store.get(ids)
        return [jobs.get(job_id) or NotFound(f"there is no job {job_id}") for job_id in ids]

    def _take_back(self, batch: list[Sequence[Job]]) -> list[BaseException | None]:
        self._issue.give_back([job for jobs in batch for job in jobs])
        return [None] * len(batch)

    def _put_right(self) -> None:
        try:
            self._issue.put_right()
        except Exception:
            logger.exception("jobs that were not handed over could not be given back")

    def _run(self, errand: Errand, client: Client) -> None:
        try:
            reply = errand.run(self._desk)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            reply = failed(error, errand.lines)
        self._loop.call_soon_threadsafe(self._back, client, reply)

    # -- hints that there is work ----------------------------------------------------------

    def _tell(self, names: Iterable[str]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._waiting.rung, names)

    def _look_around(self) -> None:
        """The bell is a hint, looking is the truth: now and then, once for all who wait."""
        self._look_again = self._loop.call_later(_LOOK, self._look_around)
        if self._issue.troubled:
            self._errands.submit(self._put_right)
        if self._waiting.count:
            self._errands.submit(self._find_work)

    def _find_work(self) -> None:
        store = self._desk.store
        self._tell([*store.names(words.ORDINARY + "*"), *store.names(words.MOCKED + "*")])

    def _lease_ended(self) -> None:
        if self._waiting.count:
            self._errands.submit(recover, self._desk.clerk)  # which rings for what it sets free


def failed(error: BaseException, lines: Lines) -> Reply:
    """The answer to what went wrong."""
    if isinstance(error, StokerError):
        refusal = refusal_for(error, lines)
        if refusal.status == TROUBLE:
            logger.warning("the store is in trouble: %s", error)
        advice = {"error": refusal.advice} if refusal.advice else {}
        return Reply(refusal.status, headers=advice)
    logger.error("a command failed unexpectedly", exc_info=error)
    return Reply(TROUBLE, headers={"error": f"unexpected {type(error).__name__}"})


def _log_failure(found: BaseException | None) -> None:
    if found is not None:
        logger.warning("jobs that nobody took are given back later: %s", found)
