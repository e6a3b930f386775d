"""What may be done with queues, tasks and processes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from stoker.desk.announced import Arrival, Ending
from stoker.errors import Duplicate, LeaseLost, Refused, SessionLost
from stoker.kernel.change import NOTHING, Change
from stoker.kernel.job import Job
from stoker.kernel.outcome import Finished, Outcome, Released
from stoker.worqr.counter import Taking
from stoker.worqr.events import Event, EventType, done_message, news
from stoker.worqr.forms import Process, Task, several, task_of
from stoker.worqr.peer import Office, Peer


class Tasks(Peer):
    """Queues and tasks; and, for a worker, processes."""

    # -- queues ----------------------------------------------------------------------------

    async def enqueue(
        self,
        queue: str,
        task: Task | Iterable[Task],
        unique: bool = False,
    ) -> None:
        """Put a task at the end of a queue, or several, all or none.

        A unique one is refused with `Duplicate` while an equal one that is unique waits or is in
        work at the same queue.
        """
        jobs = [self._names.job(queue, each, unique=unique) for each in several(task)]
        if not jobs:
            return
        office = await self._at()
        told = self._news(office, queue, EventType.WORK, str(len(jobs)))
        try:
            await office.counter.arrive(Arrival(jobs, told))
        except Duplicate as error:
            raise Duplicate(
                f"a unique task of queue {queue!r} is there already, waiting or in work",
                existing_id=error.existing_id,
            ) from None

    async def get_queues(self) -> list[str]:
        """The names of all queues that have waiting tasks."""
        office = await self._at()
        return await office.counter.do(office.acts.queues)

    async def peek_queue(self, queue: str) -> Task | None:
        """The next task of a queue, which stays there."""
        office = await self._at()
        return await office.counter.do(lambda: office.acts.peek(queue))

    async def count_queue(self, queue: str) -> int:
        """How many tasks wait in a queue."""
        office = await self._at()
        return await office.counter.do(lambda: office.acts.count(queue))

    async def get_tasks(self, queue: str, *, newest_first: bool = False) -> list[Task]:
        """All tasks that wait in a queue, in the order of service."""
        office = await self._at()
        tasks = await office.counter.do(lambda: office.acts.tasks(queue))
        return tasks[::-1] if newest_first else tasks

    async def delete_queue(self, queue: str) -> int:
        """Drop all waiting tasks of a queue, and tell its workers; gives how many there were.

        What is in work stays in work, and if it is given back it is there again.
        """
        office = await self._at()
        return await office.counter.do(lambda: office.acts.delete(queue))

    async def cancel_tasks(self, queue: str, task: Task) -> int:
        """Drop all waiting tasks that are equal, and tell the queue's workers; gives how many
        tasks it concerns. One that is in work will not come back, whatever becomes of it."""
        office = await self._at()
        return await office.counter.do(lambda: office.acts.cancel(queue, task))

    async def request_work(self, queue: str) -> int:
        """How many tasks wait; if there are any, this peer has a `work` event, and no other."""
        waiting = await self.count_queue(queue)
        if waiting:
            self._tell(Event(queue, EventType.WORK, str(waiting)))
        return waiting

    # -- processes -------------------------------------------------------------------------

    async def start_task(self, queue: str) -> Process | None:
        """Take the next task of a queue that this worker works on; None if none waits."""
        office, session = await self._at(), self._hands.session
        if session is None or queue not in self._hands.queues:
            raise Refused(f"this worker does not work on {queue!r}; call start_work first")
        try:
            job = await office.counter.take(Taking(self._names.full(queue), session))
        except SessionLost:
            self._fail(session)
            raise
        if job is None:
            return None
        if self._hands.session != session or queue not in self._hands.queues:
            await office.counter.end(Ending(job, Released(), NOTHING))
            raise Refused(f"this worker has stopped to work on {queue!r}")
        process = Process(self._names.process_id(job), task_of(job))
        self._hands.take(process.id, queue, job)
        return process

    async def stop_task(self, process_id: str) -> None:
        """Give a task back, to the front of its queue."""
        await self._end(process_id, Released())

    async def finish_task(self, process_id: str, result: Any = msgspec.UNSET) -> None:
        """The task is done and gone; the queue's workers hear of it, with the result if any."""
        await self._end(process_id, Finished(), result=result)

    async def get_matching_processes(self, task: Task) -> list[str]:
        """The ids of all processes, of any worker and queue, whose task is equal."""
        office = await self._at()
        return await office.counter.do(lambda: office.acts.matching(task))

    async def _end(self, process_id: str, outcome: Outcome, result: Any = msgspec.UNSET) -> None:
        office, job = await self._at(), self._hands.get(process_id)
        if job is None:
            job = await office.counter.do(lambda: office.acts.held(process_id))
        told = self._done(office, job, result) if isinstance(outcome, Finished) else NOTHING
        try:
            await office.counter.end(Ending(job, outcome, told))
        except LeaseLost:
            raise LeaseLost(
                f"process {process_id!r} has lost its task; stop working on it"
            ) from None
        finally:
            self._hands.drop(process_id)

    def _done(self, office: Office, job: Job, result: Any) -> Change:
        message = done_message(self._settings.worker_id, task_of(job), result)
        return self._news(office, self._names.short(job.queue) or "", EventType.DONE, message)

    def _news(self, office: Office, queue: str, type_: EventType, message: str) -> Change:
        return news(self._names.full(queue), type_, message, clock=office.desk.store.now)
