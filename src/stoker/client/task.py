"""A task as its caller sees it: a function that can also be enqueued."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    ParamSpec,
    TypeVar,
    overload,
)

import msgspec
from msgspec import UNSET, UnsetType

from stoker.client.handle import JobHandle
from stoker.desk import Twin
from stoker.errors import BadInput
from stoker.kernel.duration import micros
from stoker.kernel.job import Job
from stoker.kernel.pacing import Pace, pace_of
from stoker.kernel.queue import units
from stoker.kernel.unique import unique_key
from stoker.kernel.window import Windows, windows_of
from stoker.store.twins import names_held

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.client.app import Stoker
    from stoker.desk import Desk
    from stoker.worker.performing import Middleware
    from stoker.worker.tasks import Definition

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Duration = str | int | float | timedelta

PREVIOUS: Any = object()
"""Stands for an argument that is to be the result of the step before it."""


class Options(msgspec.Struct, frozen=True):
    """What one enqueuing says beside the arguments. None: as the task says; but no timeout is one
    without a limit, and no windows are none at all."""

    queue: str | None = None
    delay: int | None = None
    at: int | None = None
    rank: int | None = None
    key: str | None = None
    unique: str | None = None
    if_exists: Twin = Twin.RETURN
    once_per: int | None = None
    debounce: int | None = None
    at_most: int | None = None
    ref: str | None = None
    weight: float | None = None
    timeout: int | UnsetType | None = UNSET
    windows: Windows | UnsetType | None = UNSET
    meta: str | None = None

    def but(self, said: dict[str, Any]) -> Options:
        """The same with some of them said anew."""
        unknown = said.keys() - set(self.__struct_fields__)
        if unknown:
            known = ", ".join(self.__struct_fields__)
            raise BadInput(f"no option {', '.join(sorted(unknown))}; there are {known}")
        if {"delay", "at"} <= said.keys():
            raise BadInput("delay= and at= both say when; give one of them")
        kept = {k: v for k, v in msgspec.structs.asdict(self).items() if v is not UNSET}
        if said.keys() & {"delay", "at"}:
            kept |= {"delay": None, "at": None}
        try:
            return msgspec.convert(kept | said, Options)
        except msgspec.ValidationError as error:
            raise BadInput(f"the options cannot be read: {error}") from error


# Of many calls at once: a loop in Python would take longer than the calls themselves.
_TAKES, _PAYLOAD = attrgetter("takes"), attrgetter("payload")


class Call(msgspec.Struct, frozen=True, gc=False):
    """A task with its arguments, to be enqueued together with others.

    >>> from stoker import Stoker
    >>> app = Stoker("memory:")
    >>> @app.task
    ... def greet(name: str) -> None: ...
    >>> [job.id for job in app.enqueue_many([greet.call("ann"), greet.call("bob")])]
    [1, 2]
    """

    task: Task[..., Any]
    payload: bytes
    takes: str | None = None
    """The argument that is to be the result of the step before it in a chain."""

    @property
    def job(self) -> Job:
        """The job it would be."""
        if self.task.connection is not None:
            raise BadInput(
                "chains, groups and children cannot be part of a transaction of your own; leave "
                "out within(...), or let it enqueue one task whose handler enqueues the rest"
            )
        return self.member

    @property
    def member(self) -> Job:
        """The same for somebody who sees to its transaction."""
        payloads_of([self])
        if self.task.pace is not None:
            raise BadInput("once_per and debounce are for a call by itself, not among others")
        return self.draft

    @property
    def draft(self) -> Job:
        """The same for somebody who knows what is special about it."""
        return msgspec.structs.replace(self.task.template(), payload=self.payload)


def payloads_of(calls: Sequence[Call]) -> list[bytes]:
    """The payloads of calls that are complete."""
    if any(map(_TAKES, calls)):
        raise BadInput("previous() stands for the result of the step before: use it in chain()")
    return [*map(_PAYLOAD, calls)]


class Task(Generic[P, R]):
    """A function known to the app under a name. Calling it runs it here and now.

    >>> from stoker import Stoker
    >>> app = Stoker("memory:")
    >>> @app.task(name="greet")
    ... def greet(name: str) -> str:
    ...     return f"hello {name}"
    >>> greet("ann")
    'hello ann'
    >>> greet.enqueue("ann").state.name
    'QUEUED'
    >>> greet.options(delay="10m", key="ann").enqueue(name="ann").job.key
    'ann'
    >>> greet.enqueue(7)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    stoker.errors.BadInput: the arguments do not fit the task 'greet': Expected `str`, got `int` ...
    """

    def __init__(
        self,
        app: Stoker,
        definition: Definition,
        function: Callable[P, R],
        options: Options | None = None,
        within: object | None = None,
    ) -> None:
        self._app = app
        self._within = within
        self._definition = definition
        self._function = function
        self._options = options or Options()
        self._template = self._make_template()
        self.is_plain = within is None and self.pace is None and not names_held(self._template)
        """Its calls become jobs that differ in their payloads alone, and nothing is to be asked
        before that."""
        self.name = definition.name
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<Task {self.name} on queue {self._definition.queue}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now, as if it were no task."""
        return self._function(*args, **kwargs)

    # The job of an async function has the result that awaiting its coroutine would give.
    @overload
    def enqueue(
        self: Task[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> JobHandle[T]: ...

    @overload
    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]: ...

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[Any]:
        """Take the call in as a job; durable when this returns."""
        call = self.call(*args, **kwargs)
        if self.is_plain and call.takes is None:
            return self._app.enqueue_copies(self, [call.payload])[0]
        return self._app.enqueue_many([call], within=self._within)[0]

    @overload
    async def aenqueue(
        self: Task[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> JobHandle[T]: ...

    @overload
    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]: ...

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[Any]:
        """As `enqueue`, without blocking the event loop; concurrent calls share a commit."""
        call = self.call(*args, **kwargs)
        return (await self._app.aenqueue_many([call], within=self._within))[0]

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """The call as a value, for `Stoker.enqueue_many`, `Context.spawn`, `chain` or `group`."""
        codec = self._definition.codec
        try:
            return Call(self, codec.encode(args, kwargs))
        except BadInput:  # which is what PREVIOUS leads to: most calls need not be looked through
            if not any(value is PREVIOUS for value in (*args, *kwargs.values())):
                raise
        return Call(self, *codec.encode_but(args, kwargs, PREVIOUS))

    def options(  # noqa: PLR0913 - each is an option
        self,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        key: str | None = None,
        unique: str | None = None,
        if_exists: str | None = None,
        once_per: Duration | None = None,
        debounce: Duration | None = None,
        at_most: Duration | None = None,
        timeout: Duration | UnsetType | None = UNSET,
        windows: Windows | str | UnsetType | None = UNSET,
        **plain: Any,
    ) -> Task[P, R]:
        """The same task with other options: delay or at, queue, rank, key, unique, if_exists
        ("reject", "return" or "update"), once_per, debounce and at_most, ref, weight, timeout
        (None: no limit), windows (None: at any time), meta."""
        times = {"delay": delay, "once_per": once_per, "debounce": debounce, "at_most": at_most}
        given: dict[str, Any] = {"key": key, "unique": unique, **plain}
        given |= {name: micros(time) for name, time in times.items() if time is not None}
        if at is not None:
            given["at"] = _moment(at)
        if if_exists is not None:
            given["if_exists"] = _twin(if_exists)
        given = {name: said for name, said in given.items() if said is not None}
        if timeout is not UNSET:
            given["timeout"] = None if timeout is None else micros(timeout)
        if windows is not UNSET:
            given["windows"] = None if windows is None else windows_of(windows)
        options = self._options.but(given)
        return Task(self._app, self._definition, self._function, options, self._within)

    def within(self, connection: object) -> Task[P, R]:
        """The same task, enqueued by the transaction that this connection to the store's own
        database is in: there for workers when it commits, never there if it does not.

        A connection of psycopg, asyncpg, SQLAlchemy, sqlite3 or apsw; those that are awaited with
        `aenqueue`.
        """
        return Task(self._app, self._definition, self._function, self._options, connection)

    def workplace(self) -> tuple[Definition, Desk, Sequence[Middleware]]:
        """What a process needs that is to run this task's handler and nothing else."""
        return self._definition, self._app.desk, self._app.middleware

    @property
    def returns(self) -> Any:
        """The type the function returns, if it says so."""
        return self._definition.returns

    @property
    def app(self) -> Stoker:
        """The app it belongs to."""
        return self._app

    @property
    def connection(self) -> object | None:
        """The connection in whose transaction it is enqueued, if that was said."""
        return self._within

    @property
    def delay(self) -> int | None:
        """How long its jobs wait before they may run, in microseconds, if that was said."""
        return self._options.delay

    @property
    def pace(self) -> Pace | None:
        """How often its calls may become jobs, if that was said."""
        return pace_of(self._options.once_per, self._options.debounce, self._options.at_most)

    @property
    def if_exists(self) -> Twin:
        """What is done when there is a job of the same unique key or reference."""
        return self._options.if_exists

    def template(self) -> Job:
        """The job that a call made now would be, without its arguments."""
        delay = self._options.delay
        if delay is None:
            return self._template
        return msgspec.structs.replace(self._template, due_at=self._app.desk.store.now() + delay)

    def _make_template(self) -> Job:
        task, said = self._definition, self._options
        policy = task.policy
        if policy.repeat is not None:
            # Who calls it wants one run: what repeats is the task's schedule.
            policy = msgspec.structs.replace(policy, repeat=None)
        if said.timeout is not UNSET:
            policy = msgspec.structs.replace(policy, timeout=said.timeout)
        if said.windows is not UNSET:
            policy = msgspec.structs.replace(policy, windows=said.windows)
        return Job(
            task.queue if said.queue is None else said.queue,
            task.name,
            format=task.codec.format,
            rank=said.rank or 0,
            due_at=said.at or 0,
            policy=policy,
            weight=1000 if said.weight is None else units(said.weight, "weight"),
            key=said.key,
            unique_key=None if said.unique is None else unique_key(task.name, said.unique),
            ref=said.ref,
            meta=said.meta,
        )


def _moment(at: object) -> int:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise BadInput("at= needs a datetime with a time zone, e.g. datetime.now(timezone.utc)")
    return round(at.timestamp() * 1e6)


def _twin(word: str) -> Twin:
    try:
        return Twin(word)
    except ValueError:
        words = ", ".join(twin.value for twin in Twin)
        raise BadInput(f"if_exists must be one of {words}, not {word!r}") from None


def task_name(function: Callable[..., Any]) -> str:
    """The name a task has if it is not given one."""
    module = inspect.getmodule(function)
    home = "" if module is None else _importable_name(module)
    return f"{home}.{function.__qualname__}" if home else function.__qualname__


def _importable_name(module: ModuleType) -> str:
    """What others import it by: a script that was started itself is `__main__` only to itself."""
    if module.__name__ != "__main__":
        return module.__name__
    if module.__spec__ is not None:  # python -m shop.tasks
        return module.__spec__.name
    file = getattr(module, "__file__", None)
    return Path(file).stem if file else ""
