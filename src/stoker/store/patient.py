"""A store that is asked again when it is in trouble.

For those who would rather wait than drop what they have in hand. Asking again is safe: if the
answer to a commit was lost on the way, its guards refuse it the second time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from stoker.errors import StoreError
from stoker.store import Store

Pause = Callable[[StoreError, int], None]
"""Waits after so many failures in a row; raises the error when the patience is at an end."""

_VERBS = frozenset(
    name
    for name, verb in vars(Store).items()
    if not name.startswith("_") and not isinstance(verb, property)
) - {"close"}


def patient(store: Store, pause: Pause) -> Store:
    """The same store, each of whose verbs is tried until it succeeds or `pause` gives up.

    >>> from stoker import open_store
    >>> store = patient(open_store("memory:"), pause=lambda error, failures: None)
    >>> store.survey()
    []
    """
    return cast("Store", _Patient(store, pause))


class _Patient:
    def __init__(self, store: Store, pause: Pause) -> None:
        self._store = store
        self._pause = pause

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._store, name)
        return partial(self._insist, asked) if name in _VERBS else asked

    def _insist(self, ask: Callable[..., Any], *args: Any, **options: Any) -> Any:
        failures = 0
        while True:
            try:
                return ask(*args, **options)
            except StoreError as error:
                failures += 1
                self._pause(error, failures)
