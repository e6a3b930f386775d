"""Business inside transactions of the caller's own, over connections that may have to be awaited.

What is to be attempted is said once, as a generator of Changes that is told each one's Receipt;
whoever drives it knows whether to wait for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

from stoker.errors import BadInput
from stoker.kernel.change import Change
from stoker.store import Receipt, Store
from stoker.store.outside import Outside

T = TypeVar("T")

Attempts = Generator[Change, Receipt, T]


def outside(store: Store) -> Outside:
    """The store, if it can take part in transactions of others."""
    if not isinstance(store, Outside):
        raise BadInput(
            "this store cannot take part in a transaction of yours: its jobs are not in your "
            "database. Keep them in PostgreSQL or SQLite beside your tables, or enqueue after the "
            "commit"
        )
    return store


def driven(attempts: Attempts[T], commit: Callable[[Change], Receipt]) -> T:
    """Let every attempt be made, and give what came of them."""
    try:
        change = next(attempts)
        while True:
            change = attempts.send(commit(change))
    except StopIteration as end:
        result: T = end.value
        return result


async def adriven(attempts: Attempts[T], commit: Callable[[Change], Awaitable[Receipt]]) -> T:
    """The same, waiting for each."""
    try:
        change = next(attempts)
        while True:
            change = attempts.send(await commit(change))
    except StopIteration as end:
        result: T = end.value
        return result
