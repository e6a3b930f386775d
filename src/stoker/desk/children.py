"""What became of a job's children: how many ended how, and what they brought."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, overload

import msgspec

from stoker.kernel.flow import Summary, summary
from stoker.kernel.job import FINISHED, Job, State
from stoker.store import Filter, Store
from stoker.store.paging import every

T = TypeVar("T")


class Children:
    """The children of a job, read a page at a time, however many there are.

    >>> from stoker import Stoker, current, group
    >>> from stoker.testing import harness
    >>> app = Stoker("memory:")
    >>> @app.task
    ... def half(number: int) -> int:
    ...     if number % 2:
    ...         raise ValueError(f"{number} is odd")
    ...     return number // 2
    >>> @app.task
    ... def told() -> str:
    ...     children = current().children
    ...     return f"{sum(children.results())}, {children.summary.failed} failed"
    >>> with harness(app) as stoker:
    ...     job = group([half.call(number) for number in (2, 3, 4)], then=told.call()).enqueue()
    ...     stoker.drain(), job.result
    ...     [child.error.partition("\\n")[0] for child in job.children.jobs(State.FAILED)]
    (4, '3, 1 failed')
    ['ValueError: 3 is odd']
    """

    def __init__(self, store: Store, parent: Job) -> None:
        self._store = store
        self._parent = parent

    @property
    def summary(self) -> Summary:
        """How many have ended, and how. It counts also those that are no longer kept."""
        return summary(self._parent)

    def jobs(self, *states: State) -> Iterator[Job]:
        """All that are kept, or those in one of these states, in the order they were made."""
        return every(self._store, Filter(states=states, parent_id=self._parent.id))

    @overload
    def results(self) -> Iterator[Any]: ...

    @overload
    def results(self, as_type: type[T]) -> Iterator[T]: ...

    def results(self, as_type: Any = Any) -> Iterator[Any]:
        """What those returned that have finished, in the order they were made."""
        for job in self.jobs(FINISHED):
            yield msgspec.json.decode(job.result or b"null", type=as_type)
