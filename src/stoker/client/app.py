"""The app: one URL, the user's tasks, and everything that can be done with their jobs."""

from __future__ import annotations

import asyncio
import enum
import inspect
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from itertools import repeat
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from stoker.client.calls import connection_of, jobs_of, listed, payloads_if_alike
from stoker.client.flows import group
from stoker.client.handle import JobHandle
from stoker.client.task import Call, Task, task_name
from stoker.desk import Desk, Placement, Twin
from stoker.desk.limits import NO_LIMITS, TaskLimits
from stoker.desk.schedules import Schedule
from stoker.desk.throttle import Throttler
from stoker.errors import BadInput
from stoker.kernel.duration import micros
from stoker.kernel.facts import check, check_name
from stoker.kernel.in_json import json_of
from stoker.kernel.job import Job
from stoker.kernel.pacing import Pace
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import QueueSettings
from stoker.kernel.queue_forms import read_setting, read_settings
from stoker.kernel.rate import Rate
from stoker.kernel.retry import Custom, RetryPolicy
from stoker.kernel.retry_forms import chosen_retry
from stoker.kernel.unique import schedule_key
from stoker.kernel.window import Windows, windows_of
from stoker.store.open import DEFAULT_STORE, open_store
from stoker.worker.context import Context
from stoker.worker.performing import Middleware
from stoker.worker.tasks import Definition, Place, RetryHandler, Tasks
from stoker.worker.worker import Worker, WorkerSettings

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=Throttler)
E = TypeVar("E", bound=enum.Enum)

Duration = str | int | float | timedelta

_TASK_OPTIONS = (
    *("name", "queue", "retry", "timeout", "on_lost", "crash_limit"),
    *("repeat", "windows", "place", "raw", "limit", "rate"),
)


class MakesTask(Protocol):
    """Turns a function into a task. A Context that comes first is the worker's business: callers
    do not give it."""

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class Stoker:
    """A job queue: tasks on one side, their jobs in a store on the other.

    The store is opened when it is first needed, so that importing a module touches no file.

    >>> app = Stoker("memory:")
    >>> @app.task(queue="mail")
    ... def welcome(user: int) -> str:
    ...     return f"hello {user}"
    >>> welcome(7)
    'hello 7'
    >>> welcome.enqueue(7).state.name
    'QUEUED'
    """

    def __init__(self, store: str | None = None, *, middleware: Sequence[Middleware] = ()) -> None:
        self.url = store or os.environ.get("STOKER_STORE") or DEFAULT_STORE
        self.tasks = Tasks()
        self.middleware = list(middleware)
        self._desk: Desk | None = None
        self._opening = threading.Lock()
        self._tasks: dict[str, Task[..., Any]] = {}
        self._limits: dict[str, TaskLimits] = {}
        self.throttlers: dict[str, Throttler] = {}
        self._astray: list[Definition] = []

    @property
    def desk(self) -> Desk:
        """The use cases underneath; opens the store."""
        return self._desk or self._open()

    def _open(self) -> Desk:
        with self._opening:
            if self._desk is None:
                self._desk = Desk(open_store(self.url))
            return self._desk

    def sit_at(self, desk: Desk | None) -> Desk | None:
        """Work at another desk from now on; returns the one before. None: as the URL says."""
        before, self._desk = self._desk, desk
        return before

    # -- tasks -----------------------------------------------------------------------------

    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        retry: RetryPolicy | str | RetryHandler | None = None,
        timeout: Duration | None = "24h",
        on_lost: OnLost | str = OnLost.REQUEUE,
        crash_limit: int | None = 3,
        repeat: str | None = None,
        windows: Windows | str | None = None,
        place: Place | str | None = None,
        raw: bool = False,
        limit: float | None = None,
        rate: Rate | str | None = None,
    ) -> MakesTask: ...

    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function a task, bare or with options.

        `retry`: a policy (`exponential(5)`), its text, or a callable that is asked on every
        failure. `timeout` limits one try. `repeat` makes it a schedule that workers keep going.
        `place` is where it runs: "loop" for async functions, "thread" (default) or "process".
        `limit` and `rate` say how much of it may run at once, and start in a time; they reach the
        settings of its queue when a worker starts.
        """
        if function is not None:
            return self._add(function, {})
        return lambda wanted: self._add(wanted, dict(options))

    def _add(self, function: Callable[P, R], options: dict[str, Any]) -> Task[P, R]:
        _check_function(function)
        name = options.pop("name", None)
        name = task_name(function) if name is None else name
        queue = options.pop("queue", "default")
        place, raw = options.pop("place", None), options.pop("raw", False)
        retry = options.pop("retry", None)
        check_name("the name of a task", name)
        check({"queue": queue})
        limits = _limits(name, options.pop("limit", None), options.pop("rate", None))
        policy, handler = _policy(name, retry, options)
        definition = Definition(
            function,
            name=name,
            queue=queue,
            policy=policy,
            place=None if place is None else _word(Place, place, "place"),
            raw=raw,
            retry_handler=handler,
        )
        self.tasks.add(definition)
        task = Task(self, definition, function)
        self._tasks[name] = task
        self._limits[name] = limits
        return task

    def __getitem__(self, name: str) -> Task[..., Any]:
        """A task by its name."""
        try:
            return self._tasks[name]
        except KeyError:
            known = ", ".join(sorted(self._tasks)) or "none"
            raise BadInput(f"no task is called {name!r}; known: {known}") from None

    def throttler(self, *queues: str) -> Callable[[T], T]:
        """Make a function the throttler of queues: it gets a `Throttle` and says which of the
        candidates may start. The queues are marked when a worker starts: from then on only workers
        that have the function take their jobs."""

        def add(function: T) -> T:
            _check_throttler(function)
            for queue in queues:
                if self.throttlers.setdefault(queue, function) is not function:
                    raise BadInput(f"the queue {queue!r} has a throttler; it can have one only")
            return function

        if not queues or not all(isinstance(queue, str) for queue in queues):
            raise BadInput('name the queues of a throttler: @app.throttler("mail")')
        return add

    # -- jobs ------------------------------------------------------------------------------

    def enqueue_many(
        self, calls: Iterable[Call], *, within: object | None = None
    ) -> list[JobHandle[Any]]:
        """Take many calls in at once, all or none, in one durable step; or when the transaction
        commits which the connection `within` is in. If their tasks say one, it need not be said
        again."""
        calls = listed(calls)
        if not calls:
            return []
        task = calls[0].task
        if within is None and task.is_plain:
            payloads = payloads_if_alike(task, calls)
            if payloads is not None:
                return self.enqueue_copies(task, payloads)
        within = connection_of(calls, within)
        if len(calls) == 1 and task.pace is not None:
            return [self._enqueue_paced(calls[0], task.pace, within)]
        jobs, twin = jobs_of(calls)
        if within is None:
            return self._handles(calls, self.desk.intake.enqueue_many(jobs, twin=twin))
        return self._handles(calls, self.desk.intake.enqueue_within(within, jobs, twin=twin))

    async def aenqueue_many(
        self, calls: Iterable[Call], *, within: object | None = None
    ) -> list[JobHandle[Any]]:
        """As `enqueue_many`, without blocking the event loop; `within` may have to be awaited."""
        calls = listed(calls)
        within = connection_of(calls, within)
        if within is None or not calls or calls[0].task.pace is not None:
            return await asyncio.to_thread(self.enqueue_many, calls, within=within)
        jobs, twin = jobs_of(calls)
        placements = await self.desk.intake.aenqueue_within(within, jobs, twin=twin)
        return self._handles(calls, placements)

    def _handles(
        self, calls: Sequence[Call], placements: Sequence[Placement]
    ) -> list[JobHandle[Any]]:
        return [
            JobHandle(self, placed.id, call.task.returns, fresh=placed.fresh)
            for call, placed in zip(calls, placements, strict=True)
        ]

    def enqueue_copies(
        self, task: Task[..., Any], payloads: Sequence[bytes]
    ) -> list[JobHandle[Any]]:
        """Take many calls of a plain task in at once, by what they are called with."""
        ids = self.desk.intake.enqueue_copies(task.template(), payloads)
        return [*map(JobHandle, repeat(self), ids, repeat(task.returns))]

    def _enqueue_paced(self, call: Call, pace: Pace, within: object | None) -> JobHandle[Any]:
        if within is not None:
            raise BadInput("once_per and debounce cannot be part of a transaction of your own")
        placed = self.desk.pacing.enqueue(call.draft, pace, twin=call.task.if_exists)
        return self._handles([call], [placed])[0]

    def map(
        self, task: Task[..., Any], items: Iterable[Any], *, then: Call | None = None
    ) -> JobHandle[Any]:
        """One job for each item, its only argument, all in one durable step; gives a handle on
        the job that runs when all have ended, however they ended. Without `then` that is one which
        just counts them: its result is a `Summary`."""
        if not isinstance(task, Task):
            raise BadInput(f"map takes a task, which @app.task makes of a function, not {task!r}")
        if not isinstance(items, Iterable):
            raise BadInput(f"map makes a job for each of many items, and {items!r} is not many")
        return group([task.call(item) for item in items], then=then, app=self).enqueue()

    def job(self, job_id: int) -> JobHandle[Any]:
        """A handle on a job by its id."""
        return JobHandle(self, job_id)

    def reply(self, key: str, answer: object) -> str:
        """Answer a job that waits for this key: "delivered", "kept", "late" or
        "repeated"."""
        encoded = answer if isinstance(answer, bytes) else json_of("the answer", answer)
        return self.desk.control.reply(key, encoded).value

    def configure(self, queue: str, **settings: Any) -> QueueSettings:
        """Change settings of a queue, in force at once: capacity, rate, fair, order ...

        Rates are texts such as "100 per minute", times such as "10m" or seconds.
        """
        return self.desk.control.adjust(queue, **read_settings(settings))

    # -- schedules and workers -------------------------------------------------------------

    def ensure_schedules(self) -> list[str]:
        """Bring the schedules of all repeating tasks into being, and up to date; returns those
        that are not paused."""
        repeating = [task for task in self.tasks if task.policy.repeat is not None]
        there = [self._ensure_schedule(task) for task in repeating]
        pairs = list(zip(repeating, there, strict=True))
        self._astray = [task for task, schedule in pairs if _is_astray(schedule, task)]
        return [task.name for task, schedule in pairs if not schedule.paused]

    def ensure_limits(self) -> list[str]:
        """Bring the limits that tasks declare into the settings of their queues; returns those
        that were set. What has been set once is the operator's, until the code says otherwise."""
        changed = []
        for queue in self.tasks.queues():
            tasks = (task for task in self.tasks if task.queue == queue)
            wanted = {task.name: self._limits.get(task.name, NO_LIMITS) for task in tasks}
            changed += self.desk.limits.ensure(queue, wanted)
        return changed

    def ensure_throttlers(self) -> list[str]:
        """Mark the queues that have a throttler; returns those that were not marked before."""
        settings = self.desk.clerk.settings_of(list(self.throttlers))
        unmarked = sorted(queue for queue, each in settings.items() if not each.throttled)
        for queue in unmarked:
            self.desk.control.adjust(queue, throttled=True)
        return unmarked

    def _ensure_schedule(self, task: Definition) -> Schedule:
        there = self._redefine_schedule(task)
        if there is not None:
            return there
        try:
            payload = task.codec.encode((), {})
        except BadInput as error:
            raise BadInput(
                f"the task {task.name!r} repeats, so its parameters need defaults: {error}"
            ) from error
        key = schedule_key(task.name)
        job = Job(task.queue, task.name, payload, policy=task.policy, unique_key=key)
        self.desk.intake.enqueue(job, twin=Twin.RETURN)
        return Schedule(task.name, job)

    def _redefine_schedule(self, task: Definition) -> Schedule | None:
        return self.desk.schedules.redefine(task.name, queue=task.queue, policy=task.policy)

    def _fetch_schedules(self) -> None:
        """Bring those to their queues whose runs stood in the way before."""
        there = [(task, self._redefine_schedule(task)) for task in self._astray]
        self._astray = [task for task, schedule in there if _is_astray(schedule, task)]

    def worker(
        self,
        queues: Sequence[str] | None = None,
        *,
        concurrency: int = 10,
        ttl: float = 6.0,
        grace: float = 30.0,
        name: str = "",
        chores: bool = True,
    ) -> Worker:
        """A worker for this process; by default it serves the queues of all tasks."""
        if isinstance(queues, str):
            raise BadInput(f"queues= takes a list of names; write queues=[{queues!r}]")
        chosen = tuple(queues or self.tasks.queues() or ["default"])
        settings = WorkerSettings(chosen, concurrency, ttl, grace, name, chores)
        self.ensure_schedules()
        self.ensure_limits()
        self.ensure_throttlers()
        return Worker(
            self.desk,
            self.tasks,
            settings,
            self.middleware,
            self.throttlers,
            on_round=self._fetch_schedules,
        )

    def close(self) -> None:
        """Let go of the store."""
        if self._desk is not None:
            self._desk.store.close()
            self._desk = None


def _is_astray(schedule: Schedule | None, task: Definition) -> bool:
    """Is it still in another queue, because a run of it is going on there?"""
    return schedule is not None and not schedule.paused and schedule.job.queue != task.queue


def _check_function(function: object) -> None:
    if not inspect.isroutine(function):
        raise BadInput(f"a task is made of a function, not of {function!r}")


def _check_throttler(function: object) -> None:
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise BadInput(f"a throttler is a plain function, not {function!r}")


def _word(kind: type[E], word: object, option: str) -> E:
    try:
        return kind(word)
    except ValueError:
        words = ", ".join(repr(each.value) for each in kind)
        raise BadInput(f"{option}= must be one of {words}, not {word!r}") from None


def _limits(name: str, limit: float | None, rate: object) -> TaskLimits:
    if limit is not None:
        limit = QueueSettings(tasks=read_setting("tasks", {name: limit})).tasks[name]
    return TaskLimits(limit, read_setting("rate", rate))


def _policy(
    name: str, retry: object, options: dict[str, Any]
) -> tuple[Policy, RetryHandler | None]:
    said = chosen_retry(retry)
    chosen, handler = (said, None) if isinstance(said, RetryPolicy) else (Custom(name), said)
    timeout = options.pop("timeout", "24h")
    windows = options.pop("windows", None)
    policy = Policy(
        timeout=None if timeout is None else micros(timeout),
        on_lost=_word(OnLost, options.pop("on_lost", OnLost.REQUEUE), "on_lost"),
        crash_limit=options.pop("crash_limit", 3),
        retry=chosen,
        repeat=options.pop("repeat", None),
        windows=None if windows is None else windows_of(windows),
    )
    if options:
        known = ", ".join(_TASK_OPTIONS)
        raise BadInput(
            f"a task has no option {', '.join(sorted(options))} (see {name!r}); there are {known}"
        )
    return policy, handler
