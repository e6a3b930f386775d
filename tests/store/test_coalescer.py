"""Many callers, one commit: nobody's answer is mixed up, nobody's fault spreads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import pytest

from stoker.errors import StoreUnavailable
from stoker.kernel.change import Change
from stoker.kernel.job import Job
from stoker.store import Answer, Claim, Receipt, Store
from stoker.store.coalescer import Coalescer
from stoker.store.memory import MemoryStore

PATIENCE = 30.0
"""Seconds after which a test gives up waiting; none ever takes so long."""


def change(*ids: int) -> Change:
    return Change(inserts=tuple(Job("q", id=job_id) for job_id in ids))


def claim(token: int) -> Claim:
    return Claim(("q",), 1, token)


class EchoStore:
    """Answers with what it was asked, and lets a test hold its first commit up."""

    def __init__(
        self,
        fault: Callable[[Sequence[Change]], None] = lambda changes: None,
        abreast: int = 1,
    ) -> None:
        self.abreast = abreast
        self.calls: list[tuple[int, int]] = []
        self.fault = fault
        self.entered = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.go_on.set()

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        self.calls.append((len(changes), len(claims)))
        self.entered.release()
        assert self.go_on.wait(PATIENCE)
        self.fault(changes)
        receipts = [Receipt(ids=tuple(job.id for job in each.inserts)) for each in changes]
        return Answer(receipts, [[Job("q", token=each.token)] for each in claims])


class CountingQueue(deque[Any]):
    """Tells how many callers have queued up."""

    def __init__(self) -> None:
        super().__init__()
        self.arrivals = threading.Semaphore(0)

    def append(self, call: Any) -> None:
        super().append(call)
        self.arrivals.release()


class Crowd:
    """Callers in threads, all of which wait while the first one's commit is held up."""

    def __init__(self, store: EchoStore) -> None:
        self.store = store
        self.coalescer = Coalescer(cast("Store", store))
        self.line = self.coalescer._waiting = CountingQueue()
        self.pool = ThreadPoolExecutor(64)

    def call(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Future[Answer]:
        called = self.pool.submit(self.coalescer.transact, changes, claims)
        assert self.line.arrivals.acquire(timeout=PATIENCE)
        return called

    def gather(
        self, wishes: Sequence[tuple[Sequence[Change], Sequence[Claim]]]
    ) -> list[Future[Answer]]:
        """The first caller commits alone; the others gather behind it, then all go on."""
        self.store.go_on.clear()
        first = self.pool.submit(self.coalescer.transact, [change(0)])
        assert self.store.entered.acquire(timeout=PATIENCE)
        rest = [self.call(changes, claims) for changes, claims in wishes]
        self.store.go_on.set()
        assert ids(first.result(PATIENCE)) == [(0,)]
        return rest


def ids(answer: Answer) -> list[tuple[int, ...]]:
    return [receipt.ids for receipt in answer.receipts]


def tokens(answer: Answer) -> list[int | None]:
    return [job.token for grant in answer.grants for job in grant or ()]


def test_a_lone_call_goes_straight_through() -> None:
    store = EchoStore()
    answer = Coalescer(cast("Store", store)).transact([change(1), change(2, 3)], [claim(9)])
    assert (ids(answer), tokens(answer)) == ([(1,), (2, 3)], [9])
    assert store.calls == [(2, 1)]


def test_callers_that_gather_behind_a_commit_share_the_next_one() -> None:
    store = EchoStore()
    calls = Crowd(store).gather([([change(number)], ()) for number in range(1, 21)])
    assert [ids(call.result(PATIENCE)) for call in calls] == [[(n,)] for n in range(1, 21)]
    assert store.calls == [(1, 0), (20, 0)]


def test_each_caller_gets_its_own_receipts_and_grants() -> None:
    store = EchoStore()
    wishes: list[tuple[list[Change], list[Claim]]] = [
        ([change(1), change(2)], []),
        ([], [claim(11)]),
        ([change(3)], [claim(12), claim(13)]),
        ([], []),
        ([change(4, 5)], [claim(14)]),
    ]
    answers = [call.result(PATIENCE) for call in Crowd(store).gather(wishes)]
    assert [ids(answer) for answer in answers] == [[(1,), (2,)], [], [(3,)], [], [(4, 5)]]
    assert [tokens(answer) for answer in answers] == [[], [11], [12, 13], [], [14]]
    assert store.calls[1:] == [(4, 4)]


def test_a_commit_does_not_grow_without_bounds() -> None:
    store = EchoStore()
    many = [change(number) for number in range(400)]
    calls = Crowd(store).gather([(many, ())] * 5)
    assert [len(call.result(PATIENCE).receipts) for call in calls] == [400] * 5
    assert [size for size, _ in store.calls] == [1, 1200, 800]


def test_as_many_lead_as_the_store_serves_abreast() -> None:
    store = EchoStore(abreast=3)
    crowd = Crowd(store)
    store.go_on.clear()
    leaders = [crowd.pool.submit(crowd.coalescer.transact, [change(n)]) for n in range(3)]
    assert all(store.entered.acquire(timeout=PATIENCE) for _ in leaders)
    others = [crowd.call([change(n)]) for n in range(3, 10)]
    store.go_on.set()
    answers = [ids(call.result(PATIENCE)) for call in (*leaders, *others)]
    assert answers == [[(n,)] for n in range(10)]
    assert sum(size for size, _ in store.calls) == 10
    assert len(store.calls) < 10
    assert ids(crowd.coalescer.transact([change(11)])) == [(11,)]


def poisonous(changes: Sequence[Change]) -> None:
    if any(job.id == 666 for each in changes for job in each.inserts):
        raise ValueError("poison")


def test_the_fault_of_one_caller_is_not_the_failure_of_the_others() -> None:
    crowd = Crowd(EchoStore(poisonous))
    calls = crowd.gather([([change(1)], ()), ([change(666)], ()), ([change(2)], ())])
    assert ids(calls[0].result(PATIENCE)) == [(1,)]
    with pytest.raises(ValueError, match="poison"):
        calls[1].result(PATIENCE)
    assert ids(calls[2].result(PATIENCE)) == [(2,)]


def test_a_fault_is_told_to_the_caller_and_the_next_call_works() -> None:
    coalescer = Coalescer(cast("Store", EchoStore(poisonous)))
    with pytest.raises(ValueError, match="poison"):
        coalescer.transact([change(666)])
    assert ids(coalescer.transact([change(1)])) == [(1,)]


def test_an_interrupt_is_not_tried_again() -> None:
    def interrupted(changes: Sequence[Change]) -> None:
        if len(changes) > 1:
            raise KeyboardInterrupt

    store = EchoStore(interrupted)
    calls = Crowd(store).gather([([change(1)], ()), ([change(2)], ())])
    with pytest.raises(KeyboardInterrupt):
        calls[0].result(PATIENCE)
    with pytest.raises(StoreUnavailable, match="was interrupted; it is not known whether it took"):
        calls[1].result(PATIENCE)
    assert store.calls == [(1, 0), (2, 0)]


def test_a_commit_of_which_nothing_is_known_is_not_repeated() -> None:
    def out_of_reach(changes: Sequence[Change]) -> None:
        if len(changes) > 1:
            raise StoreUnavailable("the answer was lost")

    store = EchoStore(out_of_reach)
    calls = Crowd(store).gather([([change(1)], ()), ([change(2)], ())])
    for call in calls:
        with pytest.raises(StoreUnavailable):
            call.result(PATIENCE)
    assert store.calls == [(1, 0), (2, 0)]


@pytest.mark.parametrize("seconds", [0.1, 1e-6])
def test_many_threads_on_a_real_store_lose_and_mix_up_nothing(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """However often they look whether somebody still leads."""
    monkeypatch.setattr("stoker.store.coalescer._LOOK_SECONDS", seconds)
    store = MemoryStore()
    coalescer = Coalescer(store)

    def enqueue(number: int) -> tuple[int, int]:
        draft = Job("q", name=str(number), due_at=1)
        (receipt,) = coalescer.transact([Change(inserts=(draft,))]).receipts
        return number, receipt.ids[0]

    with ThreadPoolExecutor(16) as pool:
        placed = dict(pool.map(enqueue, range(400)))
    assert len(set(placed.values())) == 400
    jobs = store.get(placed.values())
    assert {number: int(jobs[job_id].name) for number, job_id in placed.items()} == {
        number: number for number in range(400)
    }
