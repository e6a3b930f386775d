"""A handle on one job: what became of it, and what may be done about it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from stoker.desk.children import Children
from stoker.desk.explain import Explanation, explain
from stoker.errors import BadInput, NotFound, StokerError
from stoker.kernel.duration import micros
from stoker.kernel.job import ENDED, Job, State

if TYPE_CHECKING:
    from stoker.client.app import Stoker
    from stoker.worker.context import Duration

R = TypeVar("R")

_LONGEST_NAP = 0.5


class JobFailed(StokerError):
    """The job one waited for failed or was cancelled; `job` tells more.

    >>> from stoker import Stoker
    >>> job = Stoker("memory:").task(lambda: None).enqueue()
    >>> job.cancel().name
    'CANCELLED'
    >>> job.wait()
    Traceback (most recent call last):
    stoker.client.handle.JobFailed: job 1 is CANCELLED: cancelled
    """

    code = "job_failed"

    def __init__(self, job: Job) -> None:
        said = (job.error or job.state.name.lower()).partition("\n")[0]
        super().__init__(f"job {job.id} is {job.state.name}: {said}")
        self.job = job


class WaitTimeout(StokerError, TimeoutError):
    """The job did not end in the time one was willing to wait. It goes on all the same.

    >>> from stoker import Stoker
    >>> Stoker("memory:").task(lambda: None).enqueue().wait(timeout=0)
    Traceback (most recent call last):
    stoker.client.handle.WaitTimeout: job 1 is still QUEUED; it goes on all the same
    """

    code = "wait_timeout"


class JobHandle(msgspec.Struct, Generic[R], eq=False, gc=False):
    """One job, by its id. Enqueuing gives one, and so does `app.job(id)`.

    >>> from stoker import Stoker
    >>> app = Stoker("memory:")
    >>> @app.task
    ... def double(number: int) -> int:
    ...     return 2 * number
    >>> job = double.enqueue(21)
    >>> job.id, job.state.name, app.job(1).job.payload
    (1, 'QUEUED', b'{"number":21}')
    >>> worker = app.worker(); worker.start()
    >>> job.wait(timeout="10s")
    42
    >>> worker.stop()
    """

    _app: Stoker
    id: int
    _returns: Any = Any
    fresh: bool = True
    """False if a job with the same unique key was there already."""

    def __repr__(self) -> str:
        return f"<JobHandle {self.id}>"

    @property
    def job(self) -> Job:
        """All facts, read now."""
        found = self._app.desk.store.get([self.id]).get(self.id)
        if found is None:
            raise NotFound(f"there is no job {self.id} (any more); is its retention over?")
        return found

    @property
    def state(self) -> State:
        """Where the job is in its life, now."""
        return self.job.state

    @property
    def progress(self) -> float:
        """How far a running job has come, from 0 to 1."""
        job = self.job
        return 1.0 if job.state is State.FINISHED else job.progress

    @property
    def due_at(self) -> datetime:
        """When it may run."""
        return datetime.fromtimestamp(self.job.due_at / 1e6, UTC)

    def explain(self) -> Explanation:
        """Why it does not run: everything that stands in its way, and when it will run."""
        return explain(self._app.desk.store, self.id, lambda name: bool(self._app.tasks.get(name)))

    @property
    def children(self) -> Children:
        """The jobs it waits for, or has waited for: how they ended, and what they brought."""
        return Children(self._app.desk.store, self.job)

    @property
    def result(self) -> R:
        """What the handler returned; raises JobFailed, or StokerError while it has not ended."""
        return self._result(self.job)

    def wait(self, timeout: Duration | None = None) -> R:
        """Wait for the end and return the handler's result."""
        nap, deadline = 0.002, self._deadline(timeout)
        while True:
            job = self.job
            if job.state in ENDED:
                return self._result(job)
            time.sleep(self._nap(nap, deadline))
            nap = min(nap * 1.5, _LONGEST_NAP)

    async def await_result(self, timeout: Duration | None = None) -> R:
        """As `wait`, without blocking the event loop."""
        nap, deadline = 0.002, self._deadline(timeout)
        while True:
            job = await asyncio.to_thread(lambda: self.job)
            if job.state in ENDED:
                return self._result(job)
            await asyncio.sleep(self._nap(nap, deadline))
            nap = min(nap * 1.5, _LONGEST_NAP)

    @staticmethod
    def _deadline(timeout: Duration | None) -> float | None:
        return None if timeout is None else time.monotonic() + micros(timeout) / 1e6

    def _nap(self, nap: float, deadline: float | None) -> float:
        if deadline is None:
            return nap
        left = deadline - time.monotonic()
        if left <= 0:
            raise WaitTimeout(f"job {self.id} is still {self.state.name}; it goes on all the same")
        return min(nap, left)

    def cancel(self) -> State:
        """Cancel it before it runs, or ask its handler to stop; the state it is in then."""
        return self._app.desk.control.cancel(self.id).state

    def retry(self) -> None:
        """Run an ended job afresh."""
        self._app.desk.control.revive(self.id)

    def delete(self) -> None:
        """Remove all trace of it; not while it runs."""
        self._app.desk.control.delete(self.id)

    def _result(self, job: Job) -> R:
        if job.state not in ENDED:
            raise StokerError(f"job {job.id} has not ended: it is {job.state.name}; use wait()")
        if job.state is not State.FINISHED:
            raise JobFailed(job)
        result = b"null" if job.result is None else job.result
        try:
            value: R = msgspec.json.decode(result, type=self._returns)
        except msgspec.MsgspecError as error:
            raise BadInput(
                f"the result of job {job.id} is not what it should be: {error}"
            ) from error
        return value
