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
_LOOK_SECONDS = 0.1
"""How often whoever waits looks whether somebody still leads."""


class _Call:
    """One caller's wish and, in the end, its answer."""

    __slots__ = ("answer", "changes", "claims", "error", "leader", "leads", "news", "under_way")

    def __init__(self, changes: Sequence[Change], claims: Sequence[Claim]) -> None:
        self.changes = changes
        self.claims = claims
        self.answer: Answer | None = None
        self.error: BaseException | None = None
        self.leads = False
        self.leader: _Call | None = None
        """Who commits for it."""
        self.news = threading.Lock()
        """Free when the call is answered, or is to lead."""
        self.news.acquire()
        self.under_way = threading.Lock()
        """Held by the caller. Nothing but a lock is let go of whenever an interrupt comes."""

    @property
    def is_gone(self) -> bool:
        """Has the caller been interrupted?"""
        return not self.under_way.locked()


class Coalescer:
    """Stands before a store and gathers calls of `transact` from many threads.

    As many callers lead at a time as the store serves abreast: each commits for all who wait and
    then lets the next one lead. One that an interrupt has kept from doing so is noticed.
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
        self._leaders: list[_Call] = []
        self._waiting: deque[_Call] = deque()

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        """As `Store.transact`, perhaps in the company of others."""
        call = _Call(changes, claims)
        with call.under_way:
            with self._state:
                if not self._waiting and len(self._leaders) < self._store.abreast:
                    self._leaders.append(call)
                    call.leads = True
                else:
                    self._waiting.append(call)
                    self._let_lead()
                alone = call.leads
            if not alone:
                self._wait(call)
            if call.leads:
                self._lead(call, alone=alone)
            if call.error is not None:
                raise call.error
            if call.answer is None:
                raise _forsaken()
            return call.answer

    def _let_lead(self) -> None:
        """Let the foremost who wait lead, as far as leaders are missing."""
        if len(self._leaders) == self._store.abreast:
            self._leaders = [each for each in self._leaders if not each.is_gone]
        while self._waiting and len(self._leaders) < self._store.abreast:
            call = self._waiting.popleft()
            if not call.is_gone:
                self._leaders.append(call)
                call.leads = True
                call.news.release()

    def _wait(self, call: _Call) -> None:
        """Until the call is answered, or is to lead."""
        while not call.news.acquire(timeout=_LOOK_SECONDS):
            with self._state:
                self._mend(call)
                forsaken = call.leader is not None and call.leader.is_gone
            if call.leads:
                return
            if forsaken:
                if call.news.acquire(blocking=False):
                    return  # it was answered between the two looks
                raise _forsaken()

    def _mend(self, call: _Call) -> None:
        """An interrupt may have stopped whoever was about to let the call lead, or to take it
        along; and whoever led."""
        if call in self._leaders:
            call.leads = True
        elif call.leader is None and call not in self._waiting:
            self._waiting.appendleft(call)
        self._let_lead()

    def _lead(self, call: _Call, *, alone: bool) -> None:
        """Commit for all who wait; whoever finds nobody else goes straight through."""
        calls = [call]
        try:
            if alone:
                call.answer = self._store.transact(call.changes, call.claims)
            else:
                with self._state:
                    self._gather(calls)
                self._serve(calls)
        finally:
            with self._state:
                self._leaders.remove(call)
                if self._waiting:
                    self._let_lead()
            for each in calls[1:]:
                each.news.release()

    def _gather(self, calls: list[_Call]) -> None:
        leader = calls[0]
        size = len(leader.changes) + 1
        while self._waiting and size < _MOST_CHANGES:
            call = self._waiting.popleft()
            if not call.is_gone:
                call.leader = leader
                calls.append(call)
                size += len(call.changes) + 1

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
        if len(calls) == 1 or isinstance(error, StoreUnavailable):
            for call in calls:
                call.error = error
        elif isinstance(error, Exception):
            for call in calls:
                self._serve([call])
        else:
            calls[0].error = error
            for call in calls[1:]:
                call.error = _forsaken()


def _forsaken() -> StoreUnavailable:
    return StoreUnavailable(
        "whoever committed for this call was interrupted; it is not known whether it took effect"
    )
