"""Moving from one store to another: whole, while work goes on, and whatever interrupts it."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from stoker import Stoker
from stoker.desk import Desk
from stoker.desk.moving import ARRIVED, DESTINATION, ORIGIN, Move, Step
from stoker.errors import BadInput, LeaseLost, StokerError, StoreMoved, StoreUnavailable
from stoker.kernel.change import Change, NoteWrite
from stoker.kernel.job import Job, State
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import Order, QueueSettings
from stoker.kernel.retry import Failure
from stoker.store import Filter, Store
from stoker.store.clock import wall_clock
from stoker.store.memory import MemoryStore
from tests.engines import ENGINES
from tests.worker.waiting import until

EVERYTHING = Filter(limit=10_000)
BROKEN = Failure(("tests.Broken",), "broken")


def move(source: Store, target: Store, *, grace: float = 30, **names: str) -> int:
    names = {"origin": "old", "destination": "new"} | names
    return Move(source, target, **names).run(grace=grace, along=lambda step: None)


def busy_store(store: Store) -> None:
    """Jobs in all states, settings, notes and schedules."""
    desk = Desk(store)
    now = store.now()
    desk.control.configure("mail", QueueSettings(capacity=3, keys={"ann": 1}))
    desk.control.configure("slow", QueueSettings(order=Order.TIME_RANK, paused=True))
    desk.intake.enqueue_many([Job("mail", "send", b"%d" % n, key="ann") for n in range(5)])
    desk.intake.enqueue(Job("tick", "tick", policy=Policy(repeat="every 1h"), unique_key="tick"))
    desk.intake.enqueue(Job("slow", payload=b"x" * 9000, rank=-4, due_at=now + 10**9, ref="r1"))
    desk.intake.enqueue(Job("work", policy=Policy(on_lost=OnLost.FAIL), meta="m", weight=500))
    parent = desk.intake.enqueue(Job("family")).id
    (holder,) = desk.dispatch.claim(["family"])
    desk.intake.spawn(holder, [Job("children"), Job("children")])
    desk.report.finish(holder)
    assert store.get([parent])[parent].state is State.WAITING
    done, spoilt = desk.dispatch.claim(["mail", "children"], 2)
    desk.report.finish(done, b"result")
    desk.report.fail(spoilt, BROKEN)
    desk.control.cancel(desk.intake.enqueue(Job("work")).id)
    desk.control.reply("early", b"answer")
    store.transact([Change(notes=(NoteWrite("throttle", b"7"),))])


def contents(store: Store) -> tuple[object, ...]:
    views = {v.name: (v.settings, v.counts, v.used) for v in store.survey()}
    ours = (ORIGIN, DESTINATION, ARRIVED, "stoker:seal")
    notes = {k: (n.value, n.until) for k, n in store.notes().items() if k not in ours}
    return store.find(EVERYTHING), views, notes


@pytest.fixture(params=sorted(ENGINES))
def source(request: pytest.FixtureRequest) -> Iterator[Store]:
    with ENGINES[request.param](wall_clock) as store:
        yield store


@pytest.fixture(params=sorted(ENGINES))
def target(request: pytest.FixtureRequest) -> Iterator[Store]:
    with ENGINES[request.param](wall_clock) as store:
        yield store


def test_everything_arrives_as_it_was(source: Store, target: Store) -> None:
    busy_store(source)
    before = contents(source)
    assert move(source, target) == len(source.find(EVERYTHING)) > 10
    assert contents(target) == before
    desk = Desk(target)
    (next_,) = desk.dispatch.claim(["mail"])
    assert next_.id in {job.id for job in source.find(EVERYTHING)}
    assert desk.intake.enqueue(Job("mail")).id > max(job.id for job in source.find(EVERYTHING))


def test_the_old_store_tells_everybody_where_its_jobs_have_gone(source: Store) -> None:
    busy_store(source)
    move(source, MemoryStore())
    desk = Desk(source)
    with pytest.raises(StoreMoved, match=r"^the jobs of old have moved to new; open that store$"):
        desk.intake.enqueue(Job("mail"))
    assert desk.dispatch.claim(["mail", "work", "children"], 10) == []


def test_producers_and_workers_go_on_until_the_switch(source: Store, target: Store) -> None:
    app = Stoker("memory:")
    app.sit_at(Desk(source))
    ran: Counter[int] = Counter()
    noted, room = threading.Lock(), threading.Semaphore(30)

    @app.task(name="work")
    def work(number: int) -> int:
        with noted:
            ran[number] += 1
        room.release()
        return number

    acknowledged: dict[int, int] = {}

    def produce(numbers: Iterator[int]) -> None:
        for number in numbers:
            room.acquire(timeout=0.01)  # no more than the worker can do, while there is one
            try:
                acknowledged[work.enqueue(number).id] = number
            except StoreMoved:
                return

    numbers = iter(range(5000))  # far more than a move takes, and yet an end
    producers = [threading.Thread(target=produce, args=(numbers,)) for _ in range(2)]
    worker = app.worker(chores=False)
    worker.start()
    for producer in producers:
        producer.start()
    until(lambda: len(ran) > 20)
    move(source, target)
    for producer in producers:
        producer.join()
    with pytest.raises(StoreMoved):
        work.enqueue(-1)
    worker.stop()
    app.sit_at(Desk(target))
    heir = app.worker(chores=False)
    heir.start()
    for job_id, number in acknowledged.items():
        assert app.job(job_id).wait(timeout="60s") == number
    heir.stop()
    assert ran == Counter(acknowledged.values()), "each ran just once"
    assert len(target.find(EVERYTHING)) == len(acknowledged)


def test_what_does_not_end_in_time_is_lost_to_its_worker(source: Store, target: Store) -> None:
    desk = Desk(source)
    retried, given_up = (
        desk.intake.enqueue(Job("q", policy=Policy(on_lost=on_lost))).id
        for on_lost in (OnLost.REQUEUE, OnLost.FAIL)
    )
    held = desk.dispatch.claim(["q"], 2)
    move(source, target, grace=0)
    moved = target.get([retried, given_up])
    assert moved[retried].state is State.QUEUED
    assert moved[retried].error == "it was still running when its store moved"
    assert moved[given_up].state is State.FAILED
    for job in held:
        with pytest.raises((LeaseLost, StoreMoved)):
            desk.report.finish(job)


class Fragile:
    """A store whose every writing call is the last one, when its time has come."""

    def __init__(self, store: Store, calls: Iterator[int], last: float) -> None:
        self._store, self._calls, self._last = store, calls, last

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._breaking(found) if name in ("transact", "adopt") else found

    def _breaking(self, verb: Any) -> Any:
        def call(*args: Any) -> Any:
            number = next(self._calls)
            if number == self._last:
                raise StoreUnavailable("cut before")
            answer = verb(*args)
            if number + 0.5 == self._last:
                raise StoreUnavailable("cut after, the answer is lost")
            return answer

        return call


def test_interrupted_anywhere_it_is_run_again() -> None:
    interrupted = 0
    for last in itertools.count():
        source, target = MemoryStore(), MemoryStore()
        busy_store(source)
        before = contents(source)
        calls = itertools.count()
        fragile = [Fragile(store, calls, last / 2) for store in (source, target)]
        try:
            move(*fragile)
        except StoreUnavailable:
            interrupted += 1
        else:
            break
        move(source, target)
        assert contents(target) == before
        assert Desk(target).dispatch.claim(["mail"])
    assert interrupted > 10


def test_what_changed_since_an_interruption_is_moved_too(source: Store) -> None:
    busy_store(source)
    target, desk = MemoryStore(), Desk(source)
    cut = Fragile(source, itertools.count(), 0)
    with pytest.raises(StoreUnavailable):
        move(cut, target)
    assert target.find(EVERYTHING) == source.find(EVERYTHING)
    (job,) = desk.dispatch.claim(["work"])
    desk.report.finish(job)
    late = desk.intake.enqueue(Job("late")).id
    gone = desk.intake.enqueue(Job("late")).id
    desk.control.delete(gone)
    before = contents(source)
    move(source, target)
    assert contents(target) == before
    assert target.get([late, gone]).keys() == {late}


def test_a_move_that_is_over_does_nothing_more() -> None:
    source, target = MemoryStore(), MemoryStore()
    busy_store(source)
    moved = move(source, target)
    Desk(target).intake.enqueue(Job("new"))
    assert move(source, target) == moved + 1


def test_an_abandoned_move_leaves_the_old_store_at_work() -> None:
    source, target = MemoryStore(), MemoryStore()
    busy_store(source)
    before = source.find(EVERYTHING)
    cut = Fragile(source, itertools.count(), 0.5)
    with pytest.raises(StoreUnavailable):
        move(cut, target)
    with pytest.raises(StoreMoved):
        Desk(source).intake.enqueue(Job("mail"))
    Move(source, target, origin="old", destination="new").abandon()
    assert source.find(EVERYTHING) == before
    assert Desk(source).dispatch.claim(["mail"])
    assert target.find(EVERYTHING) == []
    assert target.notes().keys() & {ORIGIN, "stoker:seal"} == set()


def test_abandoning_is_interrupted_anywhere_and_done_again() -> None:
    for last in itertools.count():
        source, target = MemoryStore(), MemoryStore()
        busy_store(source)
        with pytest.raises(StoreUnavailable):
            move(Fragile(source, itertools.count(), 0.5), target)
        calls = itertools.count()
        fragile = [Fragile(store, calls, last / 2) for store in (source, target)]
        try:
            Move(*fragile, origin="old", destination="new").abandon()
        except StoreUnavailable:
            with suppress(BadInput):  # only the answer was lost
                Move(source, target, origin="old", destination="new").abandon()
        else:
            break
        assert Desk(source).dispatch.claim(["mail"])
        assert Desk(target).intake.enqueue(Job("mail"))
    assert last > 4


def test_a_new_store_that_was_lost_is_told_and_the_old_one_works_again(source: Store) -> None:
    busy_store(source)
    before = contents(source)
    move(source, MemoryStore())
    with pytest.raises(StokerError, match=r"^old has moved to new, but its jobs are not there"):
        move(source, MemoryStore())
    other = MemoryStore()
    Desk(other).intake.enqueue(Job("mail"))
    Move(source, other, origin="old", destination="new").abandon()
    assert contents(source) == before
    assert Desk(source).dispatch.claim(["mail"])
    assert Desk(other).dispatch.claim(["mail"]), "what is not ours stays"


def test_a_move_that_is_over_cannot_be_abandoned() -> None:
    source, target = MemoryStore(), MemoryStore()
    busy_store(source)
    move(source, target)
    with pytest.raises(BadInput, match="nothing to abandon"):
        Move(source, target, origin="old", destination="new").abandon()
    assert Desk(target).dispatch.claim(["mail"])


def test_what_was_not_begun_cannot_be_abandoned() -> None:
    moving = Move(MemoryStore(), MemoryStore(), origin="old", destination="new")
    with pytest.raises(BadInput, match="nothing to abandon"):
        moving.abandon()


def test_a_store_that_holds_jobs_is_no_place_to_move_to() -> None:
    source, target = MemoryStore(), MemoryStore()
    Desk(target).intake.enqueue(Job("q"))
    with pytest.raises(BadInput, match=r"^new holds jobs already"):
        move(source, target)
    assert Desk(target).dispatch.claim(["q"])


def test_a_store_that_has_moved_cannot_move_elsewhere() -> None:
    source = MemoryStore()
    busy_store(source)
    move(source, MemoryStore())
    with pytest.raises(BadInput, match=r"^old has moved to new already"):
        move(source, MemoryStore(), destination="third")


def test_two_stores_cannot_move_into_one() -> None:
    source, target = MemoryStore(), MemoryStore()
    busy_store(source)
    cut = Fragile(target, itertools.count(), 2)
    with pytest.raises(StoreUnavailable):
        move(source, cut)
    with pytest.raises(BadInput, match="is being filled from old"):
        move(MemoryStore(), target, origin="other")
    with pytest.raises(StoreMoved, match="still being filled"):
        Desk(target).intake.enqueue(Job("q"))


def test_the_way_is_told_step_by_step() -> None:
    source, steps = MemoryStore(), list[Step]()
    busy_store(source)
    Move(source, MemoryStore(), origin="old", destination="new").run(grace=1, along=steps.append)
    jobs = len(source.find(EVERYTHING))
    assert Step("copying, round 1", jobs, jobs) in steps
    assert Step("copying the rest", jobs, jobs) in steps
