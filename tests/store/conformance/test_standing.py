"""Claims that stand: whoever brings a job next starts it for an idle worker, in the same step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import Order, QueueSettings
from stoker.store import Claim, Filter, Session, Store
from stoker.store.bell import Listener
from stoker.store.rings import errand_ring
from stoker.watch.recover import recover
from tests.engines import VirtualClock
from tests.store.conformance.acts import HOUR, SECOND, put, state

WORKER, OTHER = 2**62 + 7, 8
"""Sessions; numbers may be too large for a server that reckons with floating point."""
TOKEN = 2**61 + 1
_SILENCE = 0.06


@pytest.fixture
def ear(store: Store) -> Iterator[Listener]:
    """Somebody who hears; on PostgreSQL it takes a moment until that is known."""
    ear = store.bell.listen()
    if hasattr(store.bell, "comes_through"):
        assert store.bell.comes_through()
    yield ear
    ear.close()


@pytest.fixture(autouse=True)
def _workers(desk: Desk, store: Store, ear: Listener) -> None:
    """Two workers, and a queue that has had a job before."""
    for session in (WORKER, OTHER):
        store.enrol(Session(session), 10 * SECOND)
    (job,) = _claimed(desk, put(desk))
    desk.report.finish(job)
    ear.wait(0.05)


def _claimed(desk: Desk, *ids: int) -> list[Job]:
    jobs = desk.dispatch.claim(["q"], 10)
    assert [job.id for job in jobs] == list(ids)
    return jobs


def granted(store: Store, claim: Claim) -> list[Job]:
    """What a claim gets; its session is alive."""
    (grant,) = store.transact([], [claim]).grants
    assert grant is not None
    return list(grant)


class Stand(Protocol):
    """Leaves a claim standing."""

    def __call__(
        self, session: int = WORKER, token: int = TOKEN, queues: tuple[str, ...] = ("q",)
    ) -> None: ...


@pytest.fixture
def stand(store: Store, ear: Listener) -> Stand:
    def stand(session: int = WORKER, token: int = TOKEN, queues: tuple[str, ...] = ("q",)) -> None:
        claim = Claim(queues, 3, token, session, 5 * SECOND, stands=ear.address)
        assert granted(store, claim) == []

    return stand


def bring(desk: Desk, queue: str = "q", **facts: Any) -> int:
    """Enqueue a job after a silence: in a flood of rings PostgreSQL starts nothing at once."""
    time.sleep(_SILENCE)
    return put(desk, queue, **facts)


def held(store: Store, session: int = WORKER) -> list[int]:
    """What a worker holds by the books."""
    found = store.find(Filter(states=(State.RUNNING,), session=session))
    return [job.id for job in found]


def test_a_new_job_runs_for_whoever_stands_in_wait(
    desk: Desk, store: Store, stand: Stand, ear: Listener, clock: VirtualClock
) -> None:
    stand()
    job_id = bring(desk, name="t", payload=b"\x00\xff", key="k", rank=3)
    job = store.get([job_id])[job_id]
    assert (job.state, job.session, job.token) == (State.RUNNING, WORKER, TOKEN)
    assert (job.attempt, job.revision, job.started_at) == (1, 1, clock.now)
    assert job.until == clock.now + 5 * SECOND
    assert (job.name, job.payload, job.key, job.rank) == ("t", b"\x00\xff", "k", 3)
    assert ear.wait(10) == {errand_ring(WORKER)}
    assert ear.brought() == [job]
    desk.report.finish(job)


def test_it_is_the_same_as_if_it_had_been_claimed(
    desk: Desk, store: Store, stand: Stand, clock: VirtualClock
) -> None:
    put(desk, name="t", meta="{}", weight=500)
    (claimed,) = granted(store, Claim(("q",), 1, TOKEN + 1, WORKER, 5 * SECOND))
    stand()
    started = bring(desk, name="t", meta="{}", weight=500)
    facts = store.get([claimed.id, started])
    differing = {
        name
        for name in Job.__struct_fields__
        if getattr(facts[started], name) != getattr(facts[claimed.id], name)
    }
    assert differing == {"id", "token"}


def test_only_one_job_is_started(desk: Desk, store: Store, stand: Stand) -> None:
    stand()
    first, second = bring(desk), bring(desk)
    assert held(store) == [first]
    _claimed(desk, second)


def test_the_last_to_come_is_the_first_to_be_served(
    desk: Desk, store: Store, stand: Stand, clock: VirtualClock
) -> None:
    stand()
    clock.now += 1
    stand(OTHER, TOKEN + 1)
    job_id = bring(desk)
    assert (held(store, OTHER), held(store)) == ([job_id], [])


def test_a_queue_of_which_nobody_has_heard_is_not_waited_for(
    desk: Desk, store: Store, stand: Stand
) -> None:
    stand(queues=("p", "q"))
    bring(desk, "r")
    assert held(store) == []


def test_each_of_several_queues_is_waited_for(desk: Desk, store: Store, stand: Stand) -> None:
    stand(queues=("p", "q"))
    job_id = bring(desk)
    assert held(store) == [job_id]


@pytest.mark.parametrize("limit", [0, 1])
def test_whoever_claims_again_stands_no_more(
    desk: Desk, store: Store, stand: Stand, limit: int
) -> None:
    stand()
    assert granted(store, Claim(("q",), limit, TOKEN + 1, WORKER)) == []
    _claimed(desk, bring(desk))


def test_the_same_claim_again_stands_as_it_stood(desk: Desk, store: Store, stand: Stand) -> None:
    stand()
    stand()
    first, second = bring(desk), bring(desk)
    assert held(store) == [first]
    _claimed(desk, second)


def test_a_claim_for_nothing_gets_nothing(desk: Desk, store: Store) -> None:
    job_id = bring(desk)
    assert granted(store, Claim(("q",), 0, TOKEN, WORKER)) == []
    _claimed(desk, job_id)


def test_whoever_got_something_does_not_stand(desk: Desk, store: Store, ear: Listener) -> None:
    first = bring(desk)
    (job,) = granted(store, Claim(("q",), 3, TOKEN, WORKER, stands=ear.address))
    assert job.id == first
    _claimed(desk, bring(desk))


def test_a_dead_worker_is_served_no_more(
    desk: Desk, store: Store, stand: Stand, clock: VirtualClock
) -> None:
    stand()
    clock.now += 11 * SECOND
    _claimed(desk, bring(desk))


def test_nor_is_one_that_has_left(desk: Desk, store: Store, stand: Stand) -> None:
    stand()
    store.retire(WORKER)
    _claimed(desk, bring(desk))


def test_nobody_overtakes_a_job_that_is_due(
    desk: Desk, store: Store, stand: Stand, ear: Listener, clock: VirtualClock
) -> None:
    bring(desk, due_at=clock.now + SECOND, rank=5)
    stand()
    ear.wait(0)
    clock.now += SECOND
    bring(desk, rank=9)
    assert held(store) == []
    assert [job.rank for job in desk.dispatch.claim(["q"], 10)] == [5, 9]


def test_a_job_that_is_not_due_is_overtaken(
    desk: Desk, store: Store, stand: Stand, clock: VirtualClock
) -> None:
    bring(desk, due_at=clock.now + HOUR)
    stand()
    job_id = bring(desk, rank=9)
    assert held(store) == [job_id]


def test_a_job_for_later_waits_for_its_time(
    desk: Desk, store: Store, stand: Stand, clock: VirtualClock
) -> None:
    stand()
    bring(desk, due_at=clock.now + 1)
    assert held(store) == []


@pytest.mark.parametrize("on_lost", [OnLost.FAIL, OnLost.STAY, OnLost.RETRY])
def test_a_job_that_a_dead_worker_must_not_get_is_claimed(
    desk: Desk, store: Store, stand: Stand, on_lost: OnLost
) -> None:
    stand()
    _claimed(desk, bring(desk, policy=Policy(on_lost=on_lost)))


@pytest.mark.parametrize(
    "settings",
    [
        QueueSettings(paused=True),
        QueueSettings(capacity=1),
        QueueSettings(key_capacity=1),
        QueueSettings(fair=True),
        QueueSettings(within="outer"),
        QueueSettings(order=Order.TIME_RANK, paused=True),
    ],
)
def test_a_queue_that_asks_before_it_lets_anybody_start_is_asked(
    desk: Desk, store: Store, stand: Stand, settings: QueueSettings
) -> None:
    desk.control.configure("q", settings)
    stand()
    bring(desk, key="k")
    assert held(store) == []


def test_what_comes_in_company_is_claimed(
    desk: Desk, store: Store, stand: Stand, ear: Listener
) -> None:
    stand()
    desk.intake.enqueue_many([Job("q"), Job("q")])
    assert held(store) == []
    assert ear.wait(10) == {"q"}


def test_a_job_too_long_for_a_ring_is_found_by_its_session(
    desk: Desk, store: Store, stand: Stand, ear: Listener
) -> None:
    stand()
    job_id = bring(desk, payload=bytes(100_000))
    assert ear.wait(10) == {errand_ring(WORKER)}
    assert held(store) == [job_id]


def test_a_job_that_was_started_for_a_dead_worker_runs_again(
    desk: Desk, store: Store, stand: Stand, clock: VirtualClock
) -> None:
    stand()
    job_id = bring(desk)
    clock.now += 11 * SECOND
    assert state(desk, job_id) is State.RUNNING
    recover(desk.clerk)
    (job,) = _claimed(desk, job_id)
    assert (job.attempt, job.crashes) == (2, 1)
