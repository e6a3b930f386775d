"""Decisions without a lease, jobs by order, and jobs that say themselves how long they are kept."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.desk.orders import Order
from stoker.errors import NotFound, Refused, StokerError
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Finished
from stoker.kernel.policy import Policy
from stoker.kernel.queue import Retention
from stoker.store import Claim, Store
from stoker.watch import run_chores
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    DAY,
    SECOND,
    counted,
    exists,
    put,
    running,
    seen,
    snapshot,
    state,
    surveyed,
    take,
    take_all,
)

LEASED = Policy(timeout=60 * SECOND)


def nothing(_: Job) -> dict[str, Any]:
    return {}


def ordered(queue: str = "q", **facts: Any) -> Order:
    """One job, only if its queue is empty."""
    return Order(lambda _: Job(queue, unique_key=queue, **facts), once=True)


# -- decisions -----------------------------------------------------------------------------


def test_decisions_of_many_are_carried_out_each_on_its_own(desk: Desk, store: Store) -> None:
    one, two, three = (running(desk, name=name) for name in ("one", "two", "three"))
    hand = desk.byhand
    results = hand.settle(
        [
            hand.finish(one.id, nothing),
            hand.finish(one.id, nothing),
            hand.retry(two.id, lambda job: {"payload": job.payload + b"!"}, at=store.now()),
            hand.fail(three.id, nothing, reason="rain"),
            hand.delete(99, nothing),
        ]
    )
    assert [state(desk, job.id) for job in (one, two, three)] == [
        State.FINISHED,
        State.QUEUED,
        State.FAILED,
    ]
    assert seen(desk, two.id).payload == b"null!"
    assert [isinstance(result, StokerError) for result in results] == [0, 1, 0, 0, 1]
    assert isinstance(results[-1], NotFound)
    assert surveyed(store) == counted(store)


def test_terms_may_refuse_and_then_nothing_happens(desk: Desk, store: Store) -> None:
    job = running(desk)

    def no(_: Job) -> dict[str, Any]:
        raise Refused("not today")

    before = snapshot(store)
    hand = desk.byhand
    results = hand.settle([hand.finish(job.id, no), hand.amend(job.id, no)])
    assert [str(result) for result in results] == ["not today", "not today"]
    assert snapshot(store) == before


def test_a_copy_that_is_no_longer_right_is_read_again_and_no_refusal_goes_by_it(
    desk: Desk,
) -> None:
    old = running(desk)
    desk.report.release(old)
    new = take(desk)

    def only_new(job: Job) -> dict[str, Any]:
        if job.token != new.token:
            raise Refused("an old copy")
        return {"payload": b"new"}

    hand = desk.byhand
    (amended,) = hand.settle([hand.amend(old.id, only_new)._replace(seen=old)])
    (finished,) = hand.settle([hand.finish(old.id, nothing)._replace(seen=old)])
    assert isinstance(amended, Job) and isinstance(finished, Job)
    assert (finished.payload, state(desk, old.id)) == (b"new", State.FINISHED)
    (again,) = hand.settle([hand.finish(old.id, nothing)._replace(seen=old)])
    assert isinstance(again, Refused)


def test_a_job_may_change_its_queue_as_it_goes_back(desk: Desk, store: Store) -> None:
    job = running(desk, unique_key="u", rank=4)
    elsewhere = {"queue": "r", "name": "n", "unique_key": None, "rank": -4}
    hand = desk.byhand
    hand.settle([hand.retry(job.id, lambda _: elsewhere, at=store.now())])
    assert take_all(desk, "q") == []
    assert take(desk, "r").id == job.id
    assert put(desk, unique_key="u") != job.id
    assert surveyed(store) == counted(store)


@pytest.mark.parametrize("wanted", State)
def test_requeueing_leads_back_from_everywhere(desk: Desk, store: Store, wanted: State) -> None:
    job_id = put(desk)
    hand = desk.byhand
    if wanted is State.CANCELLED:
        desk.control.cancel(job_id)
    elif wanted is not State.QUEUED:
        job = take(desk)
        if wanted is State.WAITING:
            desk.intake.spawn(job, [Job("child")])
        if wanted in (State.WAITING, State.FINISHED):
            hand.settle([hand.finish(job_id, nothing)])
        if wanted is State.FAILED:
            hand.settle([hand.fail(job_id, nothing, reason="rain")])
    assert state(desk, job_id) is wanted
    hand.settle([hand.requeue(job_id, nothing)])
    assert take(desk).id == job_id
    assert surveyed(store) == counted(store)


def test_rank_and_time_of_a_running_job_count_when_it_comes_back(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    job, other = running(desk), put(desk)
    later = store.now() + 5 * SECOND
    hand = desk.byhand
    hand.settle([hand.amend(job.id, lambda _: {"rank": -1, "due_at": later})])
    desk.report.release(seen(desk, job.id))
    assert take_all(desk) == [other]
    clock.pass_(5)
    assert take_all(desk) == [job.id]


def test_a_running_job_with_a_lease_can_be_deleted_and_its_parent_goes_on(
    desk: Desk, store: Store
) -> None:
    parent = running(desk, "parents")
    (child,) = desk.intake.spawn(parent, [Job("q", policy=LEASED)])
    desk.report.finish(parent)
    take(desk, "q")
    hand = desk.byhand
    hand.settle([hand.delete(child, nothing)])
    assert not exists(desk, child)
    assert state(desk, parent.id) is State.QUEUED
    assert surveyed(store) == counted(store)


def test_a_parent_that_waits_again_keeps_its_new_children_and_lets_go_of_the_old(
    desk: Desk, store: Store
) -> None:
    parent = running(desk, "parents")
    (old,) = desk.intake.spawn(parent, [Job("q")])
    hand = desk.byhand
    hand.settle([hand.finish(parent.id, nothing)])
    hand.settle([hand.finish(take(desk).id, nothing)])
    parent = take(desk, "parents")
    assert [job.id for job in hand.ended_children(parent)] == [old]
    (new,) = desk.intake.spawn(parent, [Job("q")])
    hand.settle([hand.finish(parent.id, nothing)])
    assert not exists(desk, old)
    assert (state(desk, parent.id), state(desk, new)) == (State.WAITING, State.QUEUED)
    assert seen(desk, parent.id).finished_children == 0
    assert surveyed(store) == counted(store)


def test_jobs_of_one_rank_can_be_taken_out_of_turn(desk: Desk, store: Store) -> None:
    first, second, third = (put(desk, rank=rank) for rank in (-1, 5, 5))
    put(desk, rank=5, due_at=store.now() + DAY)
    (job,) = desk.byhand.take_of_rank(Claim(("q",), 1, 77), 5)
    assert (job.id, job.state, job.token) == (second, State.RUNNING, 77)
    assert seen(desk, second) == job
    assert [job.id for job in desk.byhand.take_of_rank(Claim(("q",), 9, 78), 5)] == [third]
    assert take_all(desk) == [first]
    assert desk.report.finish(job).state is State.FINISHED
    assert surveyed(store) == counted(store)


# -- orders --------------------------------------------------------------------------------


def test_jobs_of_many_callers_are_placed_each_on_its_own(desk: Desk, store: Store) -> None:
    one, wrong, two = desk.orders.place_each([Job("q"), Job("q", id=7), Job("r")])
    assert (one, two) == (1, 2)
    assert isinstance(wrong, StokerError)
    assert surveyed(store) == counted(store)
    assert desk.orders.place_each([]) == []


def test_a_job_ordered_once_is_made_where_there_is_none_in_any_state(desk: Desk) -> None:
    (first,) = desk.orders.place([ordered()])
    (again,) = desk.orders.place([ordered()])
    assert (first.fresh, again) == (True, first._replace(fresh=False))
    desk.control.cancel(first.id)
    assert desk.orders.place([ordered()])[0].id == first.id
    desk.control.delete(first.id)
    assert desk.orders.place([ordered()])[0].fresh
    plain = put(desk, "plain")
    assert desk.orders.place([ordered("plain")])[0].id == plain


def test_the_job_that_is_there_is_changed_on_the_callers_terms(desk: Desk, store: Store) -> None:
    job = running(desk, unique_key="q", payload=b"1")
    order = ordered()._replace(terms=lambda there: {"payload": there.payload + b"2", "rank": -9})
    desk.orders.place([order])
    assert (seen(desk, job.id).payload, seen(desk, job.id).rank) == (b"12", -9)
    assert surveyed(store) == counted(store)


def test_orders_of_one_call_are_carried_out_all_or_none(desk: Desk, store: Store) -> None:
    parent = running(desk, "parents")
    child = Order(lambda above: Job("q", payload=above.payload if above else b""), parent.id)
    orders = [child, ordered("a"), Order(lambda _: Job("b")), ordered("a"), child]
    placed = desk.orders.place(orders)
    assert placed[1].id == placed[3].id
    assert len({place.id for place in placed}) == 4
    assert seen(desk, parent.id).open_children == 2
    before = snapshot(store)
    for wrong in (Order(lambda _: Job("c"), 99), Order(lambda _: Job("c"), placed[2].id)):
        with pytest.raises(StokerError):
            desk.orders.place([Order(lambda _: Job("b")), child, wrong])
    assert snapshot(store) == before
    assert surveyed(store) == counted(store)


def test_many_who_order_the_same_at_once_get_the_same(desk: Desk) -> None:
    found: list[int] = []

    def order() -> None:
        found.append(desk.orders.place([ordered()])[0].id)

    threads = [threading.Thread(target=order) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


# -- retention -----------------------------------------------------------------------------


def test_a_job_may_say_itself_how_long_it_is_kept(desk: Desk, clock: VirtualClock) -> None:
    policy = Policy(retention=Retention(finished=0, failed=None))
    gone, kept = running(desk, policy=policy), running(desk, policy=policy)
    desk.report.finish(gone)
    hand = desk.byhand
    hand.settle([hand.fail(kept.id, nothing, reason="rain")])
    assert not exists(desk, gone.id)
    clock.pass_(1000 * 86_400)
    run_chores(desk.clerk, "me")
    assert state(desk, kept.id) is State.FAILED


def test_reports_of_many_heed_it_too(desk: Desk) -> None:
    policy = Policy(retention=Retention(finished=0))
    jobs = [running(desk, policy=policy), running(desk)]
    desk.report.many([(job, Finished()) for job in jobs])
    assert [exists(desk, job.id) for job in jobs] == [False, True]
