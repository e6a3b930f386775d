"""Tasks: the user's functions, under the names by which jobs ask for them."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, get_type_hints

from stoker.errors import BadInput
from stoker.kernel.flow import CHAIN, GROUP
from stoker.kernel.in_json import encoded
from stoker.kernel.policy import PLAIN, Policy
from stoker.worker.arguments import Codec, JsonCodec, RawCodec, context_parameter

RetryHandler = Callable[..., Any]
"""Gets a copy of the job and its failure; says when to try again (see `kernel.retry.consult`)."""


class Place(enum.Enum):
    """Where a handler runs."""

    LOOP = "loop"
    """On the worker's event loop: coroutine functions."""
    THREAD = "thread"
    PROCESS = "process"
    """In a process of its own, which can be stopped by force."""


class Definition:
    """One task: its function, how it is called and how its jobs are treated."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        queue: str,
        policy: Policy = PLAIN,
        place: Place | None = None,
        raw: bool = False,
        retry_handler: RetryHandler | None = None,
    ) -> None:
        self.function = function
        self.name = name
        self.queue = queue
        self.policy = policy
        self.retry_handler = retry_handler
        self.is_async = inspect.iscoroutinefunction(function)
        self.place = place or (Place.LOOP if self.is_async else Place.THREAD)
        self.codec: Codec = RawCodec(function, name) if raw else JsonCodec(function, name)
        self.context_name = context_parameter(function)
        if self.is_async != (self.place is Place.LOOP):
            raise BadInput(
                f"the task {name!r} is {'async' if self.is_async else 'not async'} and cannot run "
                f"in place={self.place.value!r}"
            )

    @cached_property
    def returns(self) -> Any:
        """The type the function returns, if it says so."""
        try:
            hints = get_type_hints(self.function)
        except NameError:
            return Any
        return hints.get("return", Any)

    def result(self, value: object) -> bytes | None:
        """What is kept of a handler's return value."""
        return None if value is None else encoded(value)


class Tasks:
    """All tasks a process knows."""

    def __init__(self) -> None:
        self._by_name: dict[str, Definition] = {}

    def add(self, definition: Definition) -> None:
        """Make a task known; its name must be its own."""
        if definition.name in (CHAIN, GROUP):
            raise BadInput(f"{definition.name!r} is a name of Stoker's own; give the task another")
        known = self._by_name.get(definition.name)
        if known is not None and known.function is not definition.function:
            raise BadInput(f"there are two tasks called {definition.name!r}; give one a name=")
        self._by_name[definition.name] = definition

    def get(self, name: str) -> Definition | None:
        """The task of that name, if it is known here."""
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Definition]:
        return iter(list(self._by_name.values()))  # others may be added meanwhile

    def __len__(self) -> int:
        return len(self._by_name)

    def queues(self) -> list[str]:
        """The queues of all tasks."""
        return sorted({task.queue for task in self._by_name.values()})
