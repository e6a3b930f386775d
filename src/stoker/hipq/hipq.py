# ruff: noqa: N815 - some names are the older ones
"""The API under both its names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from stoker.client import Stoker
from stoker.desk import Desk, Twin
from stoker.errors import BadInput, Duplicate, NotFound
from stoker.hipq.definitions import (
    JobDefinition,
    JobType,
    QueueDefinition,
    check_name,
    policy_of,
    read,
)
from stoker.hipq.handlers import Handlers, Request, Response, Retry, moment
from stoker.hipq.job import HipqJob, HipqState, key_of, view
from stoker.kernel.facts import check_text
from stoker.kernel.in_json import json_of
from stoker.kernel.job import Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.queue import units
from stoker.kernel.retry import Custom, RetryPolicy
from stoker.store import Filter
from stoker.worker.tasks import Definition
from stoker.worker.worker import Worker

_MOST = 1_000_000_000

Throttler = TypeVar("Throttler", bound=Callable[..., Any])

Naming = Callable[[str, str], str]
"""From the names of an instance and of a queue of it to that of the queue in the store."""


class Hipq:
    """Queues of jobs that talk with other services. `store` is a URL, or a desk that is open.

    An instance has a name, so that several can share a store. A job type belongs to one queue.
    """

    def __init__(
        self,
        store: str | Desk | None = None,
        *,
        name: str = "hipq",
        naming: Naming = "{}_{}".format,
    ) -> None:
        check_name("an instance", name)
        self.app = Stoker(None if isinstance(store, Desk) else store)
        if isinstance(store, Desk):
            self.app.sit_at(store)
        self.name = name
        self._naming = naming
        self._queues: dict[str, str] = {}
        self._types: dict[str, tuple[str, JobType]] = {}
        self._settings: dict[str, dict[str, Any]] = {}
        self._told: Desk | None = None
        self._worker: Worker | None = None

    # -- queues and types ------------------------------------------------------------------

    def create_queue(
        self, queue: str, definition: QueueDefinition | Mapping[str, Any] | None = None
    ) -> None:
        """Make a queue known, with its types and its limits; they are in force at once."""
        check_name("a queue", queue)
        said = read(definition or {}, QueueDefinition)
        for kind in said.job_types:
            self._register(queue, kind)
        full = self._queues[queue] = self._naming(self.name, queue)
        limit = None if said.throttle_limit < 1 else said.throttle_limit
        settings = {"capacity": limit, "order": said.sort_order.order, **said.settings}
        self._here()
        self.app.configure(full, **settings)
        self._settings[full] = settings

    def set_handlers(
        self,
        queue: str,
        job_type: str,
        request: Request,
        response: Response | None = None,
        retry: Retry | RetryPolicy | str | None = None,
    ) -> None:
        """Say what is done with the jobs of a type, in this process.

        `request(job)` sends the request. `response(job, answer)` takes the answer; without one
        the answer is the result. `retry(job)` is asked when a job failed or no answer came; or it
        is a policy such as `exponential(5)`, or the text of one, such as "fixed 1s x3".
        """
        self._type(queue, job_type)
        handlers = Handlers(
            lambda: self.app.desk,
            job_type,
            self._prefix(job_type),
            request=request,
            response=response,
            retry=retry,
        )
        name = self._task(job_type)
        task = Definition(
            handlers.task(),
            name=name,
            queue=self._full(queue),
            policy=Policy(retry=Custom(name)),
            raw=True,
            retry_handler=handlers.retry,
        )
        self.app.tasks.add(task)

    def throttler(self, *queues: str) -> Callable[[Throttler], Throttler]:
        """Make a function the throttler of queues: it is asked which of their jobs may start, as
        that of `Stoker.throttler`."""
        return self.app.throttler(*map(self._full, queues))

    def validate(self) -> list[str]:
        """Open the store, make or upgrade what it needs, and tell what is missing here."""
        self.app.desk.store.survey()
        known = {task.name for task in self.app.tasks}
        return [
            f"the job type {job_type!r} has no handlers in this process"
            for job_type in self._types
            if self._task(job_type) not in known
        ]

    def _register(self, queue: str, kind: JobType) -> JobType:
        if not kind.job_type or ":" in kind.job_type:
            raise BadInput(f"a job type needs a name without a colon, not {kind.job_type!r}")
        home, _ = self._types.get(kind.job_type, (queue, kind))
        if home != queue:
            raise BadInput(f"the job type {kind.job_type!r} belongs to the queue {home!r}")
        self._types[kind.job_type] = (queue, kind)
        return kind

    def _type(self, queue: str, job_type: str) -> JobType:
        """A type of a queue; one that is named for the first time is as all types are."""
        self._full(queue)
        home, kind = self._types.get(job_type, (None, None))
        return kind if home == queue and kind else self._register(queue, JobType(job_type))

    def _here(self) -> Desk:
        """The desk. One at which the app was put meanwhile, as tests do, first hears of the
        queues."""
        desk = self.app.desk
        if desk is not self._told:
            self._told = desk
            for full, settings in self._settings.items():
                self.app.configure(full, **settings)
        return desk

    def _full(self, queue: str) -> str:
        try:
            return self._queues[queue]
        except KeyError:
            raise BadInput(f"there is no queue {queue!r} here; call create_queue first") from None

    def _task(self, job_type: str) -> str:
        return f"{self.name}.{job_type}"

    def _prefix(self, job_type: str) -> str:
        """What stands before the keys of a type, where all keys of a store are together."""
        return f"{self._task(job_type)}:"

    # -- jobs ------------------------------------------------------------------------------

    def queue_job(self, queue: str, definition: JobDefinition | Mapping[str, Any]) -> int:
        """Take a job in; it is durable when this returns its id.

        Of a type only one job that is not final can have a key: another one is refused.
        """
        said = read(definition, JobDefinition)
        job = self._draft(queue, said, self._type(queue, said.job_type))
        if said.job_key is not None:
            self._check_key(said.job_type, said.job_key)
        try:
            return self._here().intake.enqueue(job, twin=Twin.REJECT).id
        except Duplicate as error:
            raise self._taken(said, error.existing_id) from None

    def _draft(self, queue: str, said: JobDefinition, kind: JobType) -> Job:
        factor = kind.default_throttle_factor
        factor = factor if said.throttle_factor is None else said.throttle_factor
        critical = kind.critical if said.critical is None else said.critical
        key, at = said.job_key, said.scheduled_run_time
        return Job(
            self._full(queue),
            self._task(said.job_type),
            json_of("the job_data", said.job_data),
            rank=kind.default_priority if said.priority is None else said.priority,
            due_at=0 if at is None else moment(at),
            weight=0 if critical else units(factor, "a throttle factor"),
            key=said.throttle_key,
            unique_key=None if key is None else self._prefix(said.job_type) + key,
            policy=policy_of(said, kind, self._task(said.job_type)),
        )

    def _check_key(self, job_type: str, key: str) -> None:
        """A key that reads like an id may be that of a job for which nobody said one."""
        if not key:
            raise BadInput("a job_key cannot be empty; leave it out to have the job's id")
        job = self._found(job_type, int(key)) if key.isascii() and key.isdigit() else None
        if job is not None and not job.ended and job.unique_key is None:
            raise self._taken(JobDefinition(job_type, job_key=key), job.id)

    def _taken(self, said: JobDefinition, existing: int) -> Duplicate:
        return Duplicate(
            f"job {existing} of the type {said.job_type!r} has the key {said.job_key!r} and is "
            "not final; wait until it is, or use another key",
            existing_id=existing,
        )

    def job(self, job_id: int) -> HipqJob:
        """A job by its id."""
        job = self.app.desk.store.get([job_id]).get(job_id)
        if job is None or not job.name.startswith(f"{self.name}."):
            raise NotFound(f"there is no job {job_id} of {self.name!r}; it may be forgotten")
        return self._view(job)

    def _view(self, job: Job) -> HipqJob:
        job_type = job.name.removeprefix(f"{self.name}.")
        return view(job, job_type, self._prefix(job_type))

    def running_jobs(self, queue: str) -> list[HipqJob]:
        """The jobs of a queue whose request is being sent, or whose answer is to come."""
        wanted = Filter(
            states=(State.RUNNING, State.WAITING, State.QUEUED),
            queue=self._full(queue),
            limit=_MOST,
        )
        jobs = [self._view(job) for job in self.app.desk.store.find(wanted)]
        return [job for job in jobs if job.state is HipqState.RUNNING]

    def _found(self, job_type: str, job_id: int) -> Job | None:
        job = self.app.desk.store.get([job_id]).get(job_id)
        return job if job is not None and job.name == self._task(job_type) else None

    # -- answers ---------------------------------------------------------------------------

    def respond(self, job_type: str, job_key: str, answer: object) -> str:
        """An answer came in: "delivered"; "kept" if nobody waits for it yet; "late" if nobody does
        any more; "repeated" if its request has been answered."""
        return self.app.reply(self.reply_key(job_type, job_key), answer)

    def end_job(self, queue: str, job_type: str, job_id: int, response: object) -> str:
        """The same for a job that is known by its id; "late" also if it is final by now."""
        self._type(queue, job_type)
        job = self._found(job_type, job_id)
        if job is None:
            raise NotFound(f"there is no job {job_id} of the type {job_type!r}")
        if job.ended:
            return "late"
        return self.respond(job_type, key_of(job, self._prefix(job_type)), response)

    def reply_key(self, job_type: str, job_key: str) -> str:
        """What an answer is known by elsewhere: at a bridge, over HTTP, to `stoker reply`."""
        check_text("a job_key", job_key)
        return self._prefix(job_type) + job_key

    # -- work ------------------------------------------------------------------------------

    def worker(self, queues: Sequence[str] | None = None, **settings: Any) -> Worker:
        """A worker for these queues, by default for all; settings are those of `Stoker.worker`."""
        chosen = [self._full(queue) for queue in (queues or self._queues)]
        return self.app.worker(chosen, **settings)

    def start(self, **settings: Any) -> None:
        """Begin to work, in threads of its own."""
        self._worker = self.worker(**settings)
        self._worker.start()

    def close(self) -> None:
        """Let running jobs end, and let go of the store."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None
        self.app.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    createQueue = create_queue
    setHandlers = set_handlers
    queueJob = queue_job
    endJob = end_job
