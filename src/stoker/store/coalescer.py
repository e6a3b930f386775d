"""Many callers, one commit: whoever comes first commits for all who wait behind.

Without contention a call goes straight through. Under load the callers that gather while one
commit is on its way to the disk share the next one, so that durability is paid for once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from stoker.kernel.change import Change
from stoker.store import Answer, Claim, Store

_MOST_CHANGES = 1000


class _Call:
    """One caller's wish and, in the end, its answer."""

    __slots__ = ("answer", "changes", "claims", "error")

    def __init__(self, changes: Sequence[Change], claims: Sequence[Claim]) -> None:
        self.changes = changes
        self.claims = claims
        self.answer: Answer | None = None
        self.error: BaseException | None = None


class Coalescer:
    """Stands before a store and gathers calls of `transact` from many threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = threading.Lock()
        self._waiting: deque[_Call] = deque()

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        """As `Store.transact`, perhaps in the company of others."""
        call = _Call(changes, claims)
        self._waiting.append(call)
        with self._turn:
            while call.answer is None and call.error is None:
                self._serve(self._gather())
        if call.error is not None:
            raise call.error
        assert call.answer is not None
        return call.answer

    def _gather(self) -> list[_Call]:
        calls, size = [], 0
        while self._waiting and size < _MOST_CHANGES:
            calls.append(self._waiting.popleft())
            size += len(calls[-1].changes) + 1
        return calls

    def _serve(self, calls: list[_Call]) -> None:
        try:
            changes = [change for call in calls for change in call.changes]
            claims = [claim for call in calls for claim in call.claims]
            answer = self._store.transact(changes, claims)
        except BaseException as error:  # noqa: BLE001 - handed to the callers, who raise it
            self._serve_apart(calls, error)
            return
        receipts, grants = iter(answer.receipts), iter(answer.grants)
        for call in calls:
            call.answer = Answer(
                [next(receipts) for _ in call.changes], [next(grants) for _ in call.claims]
            )

    def _serve_apart(self, calls: list[_Call], error: BaseException) -> None:
        """One caller's fault must not become another's failure."""
        if len(calls) == 1 or not isinstance(error, Exception):
            for call in calls:
                call.error = error
            return
        for call in calls:
            self._serve([call])
