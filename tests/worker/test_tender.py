"""The second boat: it goes along under load, and loses nothing when it goes down."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from stoker import Desk, Stoker
from stoker.errors import StoreUnavailable
from stoker.kernel.change import Change
from stoker.kernel.job import State
from stoker.store import Answer, Claim, Store
from stoker.worker.tender import Tender
from tests.worker.conftest import Hire
from tests.worker.trouble import TroubledStore
from tests.worker.waiting import until

PATIENCE = 30.0
JOBS = 2000


def test_it_goes_on_while_trips_are_worth_it_and_again_when_it_is_called() -> None:
    trips, home = list[int](), threading.Semaphore(0)

    def trip() -> bool:
        trips.append(len(trips))
        if len(trips) % 3 == 0:
            home.release()
        return len(trips) % 3 != 0

    tender = Tender(trip)
    for calls in (1, 2):
        tender.call()
        assert home.acquire(timeout=PATIENCE)
        tender.recall()
        assert len(trips) == 3 * calls
    tender.close()


def test_a_trip_under_way_is_waited_for_when_it_is_recalled() -> None:
    out, back = threading.Event(), threading.Event()

    def trip() -> bool:
        out.set()
        assert back.wait(PATIENCE)
        return True

    tender = Tender(trip)
    tender.call()
    assert out.wait(PATIENCE)
    recalled = threading.Thread(target=tender.recall)
    recalled.start()
    assert recalled.is_alive()
    back.set()
    recalled.join(PATIENCE)
    assert not recalled.is_alive()
    tender.close()


class WideStore(TroubledStore):
    """Serves two calls at a time, and loses now and then what it answers to the tender."""

    abreast = 2

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.by_tender = 0
        self.lost = 0

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        answer = super().transact(changes, claims)
        if threading.current_thread().name == "stoker-tender":
            self.by_tender += 1
            if self.by_tender % 3 == 0:
                self.lost += 1
                raise StoreUnavailable("the line went dead")
        return answer


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads that interrupt each other wherever they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("sync", [True, False])
def test_every_job_is_done_once_whatever_is_lost(app: Stoker, hire: Hire, *, sync: bool) -> None:
    store = WideStore(app.desk.store)
    app.sit_at(Desk(cast("Store", store)))
    ran: Counter[int] = Counter()

    def count(number: int) -> None:
        ran[number] += 1

    async def count_async(number: int) -> None:
        ran[number] += 1

    work = app.task(name="work")(count if sync else count_async)
    enqueued, number = list(range(JOBS)), 0
    worker = hire(chores=False)
    while store.lost < 3:  # how often it goes along is a matter of load
        calls = [work.call(number + each) for each in enqueued]
        jobs = app.enqueue_many(calls)
        number += JOBS
        until(lambda: worker.finished >= number)  # noqa: B023 - it is asked at once
        assert {job.state for job in jobs} == {State.FINISHED}
    assert ran == Counter(range(number))


class SlowStore(TroubledStore):
    """Serves two calls at a time, and takes a while for each; notes who asked for how much."""

    abreast = 2

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.portion = store.portion
        self.asked: dict[str, list[int]] = {}

    def transact(self, changes: Sequence[Change], claims: Sequence[Claim] = ()) -> Answer:
        for claim in claims:
            self.asked.setdefault(threading.current_thread().name, []).append(claim.limit)
        time.sleep(0.005)
        return super().transact(changes, claims)


def do_many(app: Stoker, hire: Hire, store: SlowStore) -> None:
    """Have a worker do more jobs than one boat can carry."""
    app.sit_at(Desk(cast("Store", store)))

    @app.task(name="work")
    async def work() -> None: ...

    app.enqueue_many([work.call() for _ in range(10 * JOBS)])
    worker = hire(chores=False)
    until(lambda: worker.finished == 10 * JOBS)


def test_no_boat_asks_for_more_than_comes_in_one_piece(app: Stoker, hire: Hire) -> None:
    store = SlowStore(app.desk.store)
    store.portion = 37
    do_many(app, hire, store)
    assert max(limit for limits in store.asked.values() for limit in limits) == 37


def test_under_load_both_boats_carry_their_share(app: Stoker, hire: Hire) -> None:
    store = SlowStore(app.desk.store)
    do_many(app, hire, store)
    shares = sorted(sum(limits) for limits in store.asked.values())
    assert len(shares) == 2
    assert shares[0] > sum(shares) / 4
