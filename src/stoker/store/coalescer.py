"""Many callers, one commit: whoever comes first commits for all who wait behind.

Without contention a call goes straight through. Under load the callers that gather while commits
are on their way to the disk share the next one, so that durability is paid for once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from stoker.errors import StoreUnavailable
from stoker.kernel.change import Change
from stoker.store import Answer, Claim, Store
from stoker.store.forks import heed_forks

_MOST_CHANGES = 1000


class _Call:
    """One caller's wish and, in the end, its answer."""

    __slots__ = ("_news", "answer", "changes", "claims", "error", "leads")

    def __init__(self, changes: Sequence[Change], claims: Sequence[Claim]) -> None:
        self.changes = changes
        self.claims = claims
        self.answer: Answer | None = None
        self.error: BaseException | None = None
        self.leads = False
        self._news = threading.Lock()
        self._news.acquire()

    def wait(self) -> None:
        """Until the call is answered, or is to lead."""
        self._news.acquire()

    def wake(self) -> None:
        self._news.release()


class Coalescer:
    """Stands before a store and gathers calls of `transact` from many threads.

    As many callers lead at a time as the store serves abreast: each commits for all who wait and
    then lets the next one lead.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._begin()
        heed_forks(self)

    def before_fork(self) -> None:
        """Nothing has to be put away."""

    def after_fork(self, *, in_child: bool) -> None:
        """Whoever waited or led stayed behind in the parent process."""
        if in_child:
            self._begin()

    def _begin(self) -> None:
        self._state = threading.Lock()
        self._leaders = 0
        self._waiting: deque[_Call] = deque()

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        """As `Store.transact`, perhaps in the company of others."""
        with self._state:
            alone = self._leaders < self._store.abreast
            if alone:
                self._leaders += 1
            else:
                call = _Call(changes, claims)
                self._waiting.append(call)
        return self._go_alone(changes, claims) if alone else self._go_along(call)

    def _go_alone(self, changes: Sequence[Change], claims: Sequence[Claim]) -> Answer:
        """A leader is missing, so nobody waits: the call goes straight through."""
        try:
            return self._store.transact(changes, claims)
        finally:
            with self._state:
                self._pass_on()

    def _go_along(self, call: _Call) -> Answer:
        self._follow(call)
        if call.leads:
            self._lead(call)
        if call.error is not None:
            raise call.error
        assert call.answer is not None
        return call.answer

    def _follow(self, call: _Call) -> None:
        try:
            call.wait()
        except BaseException:
            # Interrupted: nobody may wait for us to lead, nor commit what we no longer want.
            with self._state:
                if call in self._waiting:
                    self._waiting.remove(call)
                if call.leads:
                    self._pass_on()
            raise

    def _lead(self, own: _Call) -> None:
        with self._state:
            calls = self._gather(own)
        try:
            self._serve(calls)
        finally:
            with self._state:
                self._pass_on()
            for call in calls:
                if call is not own:
                    call.wake()

    def _pass_on(self) -> None:
        """Let the next one lead, if anybody waits."""
        if self._waiting:
            call = self._waiting.popleft()
            call.leads = True
            call.wake()
        else:
            self._leaders -= 1

    def _gather(self, own: _Call) -> list[_Call]:
        calls, size = [own], len(own.changes) + 1
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
        """One caller's fault must not become another's failure. But what an engine out of reach
        made of a commit is not known, so that nobody may repeat it."""
        unknown = not isinstance(error, Exception) or isinstance(error, StoreUnavailable)
        if len(calls) == 1 or unknown:
            for call in calls:
                call.error = error
            return
        for call in calls:
            self._serve([call])
