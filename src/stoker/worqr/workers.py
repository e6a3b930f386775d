"""What may be done with workers."""

from __future__ import annotations

import asyncio

from stoker.desk.announced import Ending
from stoker.errors import LeaseLost, Refused, SessionLost
from stoker.kernel.change import NOTHING
from stoker.kernel.outcome import Released
from stoker.worqr.peer import Office
from stoker.worqr.tasks import Tasks


class Workers(Tasks):
    """This peer's worker, and those of others."""

    def get_worker_id(self) -> str:
        """The id of this peer's worker."""
        return self._settings.worker_id

    async def get_workers(self) -> list[str]:
        """The ids of all workers that were started, also of dead ones until they are found."""
        office = await self._at()
        return list(await office.counter.do(office.acts.workers))

    async def get_working_queues(self, worker: str | None = None) -> list[str]:
        """The queues that a worker works on, this peer's own if none is named."""
        office = await self._at()
        workers = await office.counter.do(office.acts.workers)
        return workers.get(worker or self.get_worker_id(), [])

    async def start_worker(self) -> None:
        """Register this peer's worker; from now on it beats. Once is enough."""
        office = await self._at()
        async with self._moving:
            if self._hands.session is None:
                self._hands.session = await office.counter.do(office.acts.start)
                self._watch()

    async def keep_worker_alive(self) -> None:
        """Beat now. The peer does so by itself, every `worker_heartbeat_interval`."""
        office, session = await self._at(), self._started()
        beat = await office.counter.do(lambda: office.acts.beat(session))
        if not beat.alive:
            self._fail(session)
            raise SessionLost("this worker was taken for dead; start it again")

    async def start_work(self, queue: str) -> None:
        """Work on a queue: its tasks may be taken, and its events are heard.

        If tasks wait there already, they are announced at once.
        """
        office = await self._at()
        async with self._moving:
            await self._publish(office, {**self._hands.queues, queue: None})
        await self.request_work(queue)

    async def stop_work(self, queue: str) -> None:
        """Work on a queue no more; what this worker still has of it goes back to its front."""
        office = await self._at()
        async with self._moving:
            rest = {each: None for each in self._hands.queues if each != queue}
            await self._publish(office, rest)
            await self._give_back(office, queue)

    async def stop_worker(self) -> None:
        """Give back all that this worker has, and take it off the books."""
        office = await self._at()
        async with self._moving:
            session = self._started()
            for queue in list(self._hands.queues):
                await self._give_back(office, queue)
            self._hands.empty()
            self._watch()
            await office.counter.do(lambda: office.acts.retire(session))

    async def fail_worker(self, worker: str | None = None) -> None:
        """Count a worker as dead: its tasks go back to the front of their queues, and their
        workers are told. Without a name it is this peer's own."""
        office = await self._at()
        name = worker or self.get_worker_id()
        if name == self.get_worker_id():
            self._hands.empty()
            self._watch()
        await office.counter.do(lambda: office.acts.fail(name))

    async def cleanup_workers(self) -> list[str]:
        """Look for dead workers and bring their tasks back; gives those that were found.

        The peer does so by itself, every `worker_cleanup_interval`.
        """
        office = await self._at()
        return await office.counter.do(office.acts.clean_up)

    def _started(self) -> int:
        if self._hands.session is None:
            raise Refused("this worker is not started; call start_worker first")
        return self._hands.session

    async def _publish(self, office: Office, queues: dict[str, None]) -> None:
        session = self._started()
        try:
            await office.counter.do(lambda: office.acts.work_on(session, list(queues)))
        except SessionLost:
            self._fail(session)
            raise
        self._hands.queues = queues
        self._watch()

    async def _give_back(self, office: Office, queue: str) -> None:
        """All at once, so that they share a commit; what is lost has gone back already."""
        held = self._hands.of(queue)
        for name in held:
            self._hands.drop(name)
        endings = [Ending(job, Released(), NOTHING) for job in held.values()]
        results = await asyncio.gather(*map(office.counter.end, endings), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, LeaseLost):
                raise result
