"""From the names that the bell rings for to those who wait for them, by name or by pattern."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from stoker.kernel.glob import glob_matches, is_glob

T = TypeVar("T")


class Signpost(Generic[T]):
    """Who is concerned by which queues. Names are looked up, only patterns have to be tried."""

    def __init__(self) -> None:
        self._by_name: dict[str, set[T]] = {}
        self._by_pattern: dict[str, set[T]] = {}

    def add(self, queues: Iterable[str], waiter: T) -> None:
        """Somebody waits for these queues, GLOB patterns allowed."""
        for queue in queues:
            self._index(queue).setdefault(queue, set()).add(waiter)

    def remove(self, queues: Iterable[str], waiter: T) -> None:
        """He does not any more."""
        for queue in set(queues):
            index = self._index(queue)
            index[queue].discard(waiter)
            if not index[queue]:
                del index[queue]

    def concerned(self, names: Iterable[str]) -> set[T]:
        """All who wait for one of these names."""
        names = set(names)
        found = {waiter for name in names for waiter in self._by_name.get(name, ())}
        for pattern, waiters in self._by_pattern.items():
            if any(glob_matches(pattern, name) for name in names):
                found |= waiters
        return found

    def _index(self, queue: str) -> dict[str, set[T]]:
        return self._by_pattern if is_glob(queue) else self._by_name
