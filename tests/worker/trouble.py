"""A store that can be made to fail, and that remembers how often it was asked."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, cast

from stoker import Desk, Stoker
from stoker.errors import StoreUnavailable
from stoker.kernel.change import Change
from stoker.store import Answer, Claim, Store

_NEVER_FAIL = frozenset({"now", "close", "bell", "abreast", "portion"})


class TroubledStore:
    """Stands in front of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.trouble: Exception | None = None
        """Raised by every verb while it is there."""
        self.lose_next_grant = False
        """The next claim that is granted something is served, but its answer never arrives."""
        self.lose_next_receipt = False
        """The same for the next commit without a grant."""
        self.trips: list[tuple[int, int]] = []
        """Changes and claims of each `transact` that was tried."""
        self.failed = 0
        self.passable = threading.Event()
        """While it is not set no `transact` comes through,"""
        self.deliverable = threading.Event()
        """or none comes back."""
        self.passable.set()
        self.deliverable.set()

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        self.passable.wait()
        self._fail_if_in_trouble()
        self.trips.append((len(changes), len(claims)))
        answer = self._store.transact(changes, claims)
        self.deliverable.wait()
        granted = any(answer.grants)
        if granted and self.lose_next_grant:
            self.lose_next_grant = False
            raise StoreUnavailable("the line went dead")
        if changes and not granted and self.lose_next_receipt:
            self.lose_next_receipt = False
            raise StoreUnavailable("the line went dead")
        return answer

    def _fail_if_in_trouble(self) -> None:
        if self.trouble is not None:
            self.failed += 1
            raise self.trouble

    def __getattr__(self, verb: str) -> Any:
        found = getattr(self._store, verb)
        if verb in _NEVER_FAIL:
            return found

        def tried(*args: Any, **kwargs: Any) -> Any:
            self._fail_if_in_trouble()
            return found(*args, **kwargs)

        return tried


def put_in_front_of(app: Stoker) -> TroubledStore:
    """Let the app work with a store that can be troubled."""
    troubled = TroubledStore(app.desk.store)
    app.sit_at(Desk(cast("Store", troubled)))
    return troubled
