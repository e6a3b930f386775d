"""What is done at the desk, in words of queues, tasks and workers. Everything here blocks."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence

import msgspec

from stoker.desk import Desk
from stoker.desk.clerk import Result
from stoker.desk.workers import WorkerInfo
from stoker.errors import LeaseLost, NotFound, SessionLost
from stoker.kernel.change import NOTHING, Change
from stoker.kernel.job import QUEUED, RUNNING, Job, State, place
from stoker.store import Beat, Filter, Session
from stoker.store.paging import every
from stoker.watch import run_chores
from stoker.watch.recover import recover
from stoker.worqr.events import EventType, news
from stoker.worqr.forms import Names, Task, fingerprint, is_same, lease_of, task_of
from stoker.worqr.settings import Settings

_FOREMOST = 100
_STEP = 5000


class _Info(WorkerInfo, frozen=True):
    """What the session of a worker of ours tells, beside what all workers tell."""

    worqr: str | None = None


class Acts:
    """One peer's dealings with the store."""

    def __init__(self, desk: Desk, names: Names, settings: Settings) -> None:
        self._desk = desk
        self._names = names
        self._settings = settings

    # -- queues and tasks ------------------------------------------------------------------

    def queues(self) -> list[str]:
        """The queues that have tasks."""
        return [
            self._names.short(name) or "" for name in self._desk.store.names(self._names.pattern)
        ]

    def count(self, queue: str) -> int:
        """How many tasks wait."""
        views = self._desk.store.survey([self._names.full(queue)])
        return views[0].counts[QUEUED] if views else 0

    def peek(self, queue: str) -> Task | None:
        """The next task, which stays where it is."""
        wanted = Filter(states=(QUEUED,), queue=self._names.full(queue), limit=_FOREMOST)
        # Jobs are found by arrival; those that came at the same moment may be served otherwise.
        foremost = min(self._desk.store.find(wanted), key=place, default=None)
        return None if foremost is None else task_of(foremost)

    def tasks(self, queue: str) -> list[Task]:
        """All tasks that wait, in the order of service."""
        waiting = self._found(QUEUED, queue=self._names.full(queue))
        return [task_of(job) for job in sorted(waiting, key=place)]

    def cancel(self, queue: str, task: Task) -> int:
        """Drop all waiting tasks that are equal, have running ones stopped, and tell."""
        full = self._names.full(queue)
        equal = [
            job.id
            for state in (QUEUED, RUNNING)
            for job in self._found(state, queue=full, name=fingerprint(task))
            if is_same(job, task)
        ]
        told = news(full, EventType.CANCEL, task, clock=self._desk.store.now)
        return _in_steps(self._desk.announced.cancel, equal, told)

    def delete(self, queue: str) -> int:
        """Drop all waiting tasks, and tell."""
        full = self._names.full(queue)
        waiting = [job.id for job in self._found(QUEUED, queue=full)]
        told = news(full, EventType.DELETE, clock=self._desk.store.now)
        return _in_steps(self._desk.announced.delete, waiting, told)

    def matching(self, task: Task) -> list[str]:
        """The processes of all workers that are about an equal task."""
        return [
            self._names.process_id(job)
            for job in self._found(RUNNING, name=fingerprint(task))
            if self._names.short(job.queue) is not None and is_same(job, task)
        ]

    def held(self, process_id: str) -> Job:
        """The job of a process that somebody works on."""
        job_id, token = lease_of(process_id)
        job = self._desk.store.get([job_id]).get(job_id)
        if job is None or self._names.short(job.queue) is None:
            raise NotFound(f"there is no process {process_id!r}; perhaps its task is finished")
        if job.token != token:
            raise LeaseLost(f"process {process_id!r} has lost its task; stop working on it")
        return job

    def _found(
        self, state: State, *, queue: str | None = None, name: str | None = None
    ) -> Iterator[Job]:
        return every(self._desk.store, Filter(states=(state,), queue=queue, name=name))

    # -- workers ---------------------------------------------------------------------------

    def start(self) -> int:
        """Begin a session for this peer's worker."""
        settings = self._settings
        return self._desk.dispatch.open_session(
            settings.worker_id, self._info(()), ttl=settings.ttl
        )

    def work_on(self, session: int, queues: Sequence[str]) -> None:
        """Let everybody know on which queues the worker works."""
        if not self.beat(session).alive:
            raise SessionLost("this worker was taken for dead; start it again")
        told = Session(session, self._settings.worker_id, self._info(queues))
        self._desk.dispatch.say_anew(told, ttl=self._settings.ttl)

    def _info(self, queues: Sequence[str]) -> str:
        info = _Info(
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=tuple(self._names.full(queue) for queue in queues),
            worqr=self._settings.prefix,
        )
        return msgspec.json.encode(info).decode()

    def beat(self, session: int) -> Beat:
        """Say that the worker lives; it is not revived if it was taken for dead."""
        return self._desk.dispatch.beat(session, ttl=self._settings.ttl)

    def workers(self) -> dict[str, list[str]]:
        """All workers that are on the books, and the queues they work on."""
        found: dict[str, list[str]] = {}
        for session, info in self._peers():
            queues = [self._names.short(queue) or "" for queue in info.queues or ()]
            found.setdefault(session.name, []).extend(queues)
        return found

    def _peers(self) -> Iterator[tuple[Session, _Info]]:
        for session in self._desk.store.sessions():
            try:
                info = msgspec.json.decode(session.info, type=_Info)
            except msgspec.MsgspecError:
                continue  # no peer
            if info.worqr == self._settings.prefix:
                yield session, info

    def fail(self, worker_id: str) -> None:
        """End a worker: its tasks go back to the front of their queues, and are announced."""
        sessions = [session.id for session, _ in self._peers() if session.name == worker_id]
        if not sessions:
            raise NotFound(f"there is no worker {worker_id!r}")
        for session in sessions:
            self.retire(session)

    def retire(self, session: int) -> None:
        """End one session, and bring back what it held."""
        self._desk.dispatch.close_session(session)
        self.recover()

    def recover(self) -> None:
        """Bring back the tasks of dead workers; whoever else does so does no harm."""
        while recover(self._desk.clerk):
            pass

    def clean_up(self) -> list[str]:
        """Look for dead workers, and tidy the store; gives those that were found."""
        now = self._desk.store.now()
        dead = [session.name for session, _ in self._peers() if session.expires_at <= now]
        self.recover()
        run_chores(self._desk.clerk, f"worqr {self._settings.worker_id}")
        return dead


def _in_steps(
    decide: Callable[[Sequence[int], Change], Sequence[Result]], ids: Sequence[int], told: Change
) -> int:
    """Decide about jobs in one step, or in several if there are very many; the last one tells."""
    count = 0
    for at in range(0, len(ids) or 1, _STEP):
        news = told if at + _STEP >= len(ids) else NOTHING
        results = decide(ids[at : at + _STEP], news)
        count += sum(isinstance(result, Job) for result in results)
    return count
