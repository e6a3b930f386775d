"""Families in which something goes wrong: nobody is left hanging."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.kernel import family, rules
from stoker.kernel.job import Job, State
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import QueueSettings, Retention
from stoker.kernel.retry import GiveUp
from stoker.kernel.retry_forms import fixed
from stoker.store import Adrift, Filter, Store
from stoker.watch.recover import recover
from stoker.watch.rouse import rouse
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    BROKEN,
    SECOND,
    exists,
    put,
    seen,
    state,
    take,
    take_all,
)
from tests.store.conformance.kin import CHILD, counts, end, family_of, waiting_family

# -- when the parent does not come to its end ----------------------------------------------


@pytest.mark.parametrize("how", ["failed", "cancelled"])
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "not kept"])
def test_held_children_of_a_running_parent_that_ends_badly_are_cancelled(
    desk: Desk, how: str, kept: bool
) -> None:
    if not kept:
        desk.control.configure("parent", QueueSettings(retention=Retention(failed=0, cancelled=0)))
    parent, children = family_of(desk)
    end(desk, parent, how)
    assert exists(desk, parent.id) == kept
    assert [state(desk, child) for child in children] == [State.CANCELLED] * 2
    if kept:
        assert counts(seen(desk, parent.id)) == (0, 0, 0, 2)


@pytest.mark.parametrize("act", ["cancel", "delete"])
def test_held_children_of_a_parent_that_was_given_back_go_with_it(desk: Desk, act: str) -> None:
    parent, children = family_of(desk)
    desk.report.release(parent)
    getattr(desk.control, act)(parent.id)
    assert [state(desk, child) for child in children] == [State.CANCELLED] * 2


def test_held_children_stay_held_while_their_parent_is_tried_again(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    parent, children = family_of(desk, policy=Policy(retry=fixed("1s", limit=1)))
    desk.report.fail(parent, BROKEN)
    assert take_all(desk, "child") == []
    assert store.find(Adrift()) == []
    clock.pass_(1)
    desk.report.finish(take(desk, "parent"))
    assert take_all(desk, "child") == children


def test_held_children_of_a_lost_parent_that_fails_are_cancelled_by_the_watch(
    desk: Desk, clock: VirtualClock
) -> None:
    put(desk, "parent", policy=Policy(on_lost=OnLost.FAIL))
    parent = take(desk, "parent", visibility=SECOND)
    children = desk.intake.spawn(parent, [CHILD] * 2)
    clock.pass_(1)
    assert recover(desk.clerk) == 1
    rouse(desk.clerk)
    assert [state(desk, child) for child in children] == [State.CANCELLED] * 2
    assert rouse(desk.clerk) == 0


@pytest.mark.parametrize("act", ["cancel", "delete"])
def test_children_that_were_released_run_on_without_their_parent(desk: Desk, act: str) -> None:
    parent, (first, second) = waiting_family(desk)
    getattr(desk.control, act)(parent)
    jobs = desk.dispatch.claim(["child"], 9)
    assert [job.id for job in jobs] == [first, second]
    for job in jobs:
        assert desk.report.finish(job).state is State.FINISHED


def test_a_cancelled_parent_still_counts_children_that_end_later(desk: Desk) -> None:
    parent, _ = waiting_family(desk, 1)
    desk.control.cancel(parent)
    desk.report.finish(take(desk, "child"))
    assert (state(desk, parent), counts(seen(desk, parent))) == (State.CANCELLED, (0, 1, 0, 0))


def test_a_parent_to_be_cancelled_that_finishes_takes_its_held_children_along(
    desk: Desk,
) -> None:
    parent, children = family_of(desk)
    desk.control.cancel(parent.id)
    assert desk.report.finish(parent, b"done").state is State.CANCELLED
    assert [state(desk, child) for child in children] == [State.CANCELLED] * 2


def test_a_revived_child_comes_back_alone(desk: Desk) -> None:
    parent, (child, _) = waiting_family(desk)
    desk.report.fail(take(desk, "child"), BROKEN)
    assert desk.control.revive(child).parent_id is None
    first, second = desk.dispatch.claim(["child"], 9)
    for job in (first, second):
        desk.report.finish(job)
    assert counts(seen(desk, parent)) == (0, 1, 1, 0)
    assert state(desk, parent) is State.QUEUED


# -- crashes between two commits -----------------------------------------------------------


def test_children_left_held_by_a_crash_are_released_by_the_watch(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    parent, children = family_of(desk)
    held = seen(desk, parent.id)
    assert store.transact([rules.finish(held, now=clock.now)]).receipts[0].ok
    assert [job.id for job in store.find(Adrift())] == children
    assert rouse(desk.clerk) == 2
    assert take_all(desk, "child") == children
    assert store.find(Adrift()) == []


def test_a_parent_left_waiting_by_a_crash_is_woken_by_the_watch(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    parent, _ = waiting_family(desk, 1)
    child = take(desk, "child")
    (receipt,) = store.transact([rules.finish(child, now=clock.now)]).receipts
    assert [(told.id, told.open_children) for told in receipt.parents] == [(parent, 0)]
    assert state(desk, parent) is State.WAITING
    assert [job.id for job in store.find(Adrift())] == [parent]
    assert rouse(desk.clerk) == 1
    assert state(desk, parent) is State.QUEUED
    assert rouse(desk.clerk) == 0


@pytest.mark.parametrize("kept", [None, 0], ids=["kept", "not kept"])
def test_children_of_a_parent_that_ended_in_a_crash_are_cancelled_by_the_watch(
    desk: Desk, store: Store, clock: VirtualClock, kept: int | None
) -> None:
    parent, children = family_of(desk)
    settings = QueueSettings(retention=Retention(failed=kept))
    change = rules.fail(
        seen(desk, parent.id),
        now=clock.now,
        failure=BROKEN,
        verdict=GiveUp(),
        settings=settings,
    )
    assert store.transact([change]).receipts[0].ok
    assert rouse(desk.clerk) == 2
    assert [state(desk, child) for child in children] == [State.CANCELLED] * 2
    assert store.find(Adrift()) == []


def test_waking_a_parent_twice_does_it_once(desk: Desk, store: Store) -> None:
    parent, _ = waiting_family(desk, 1)
    desk.report.finish(take(desk, "child"))
    stale = family.resume(Job("parent", id=parent, state=State.WAITING, waits_for="children"))
    assert not store.transact([stale]).receipts[0].ok
    assert (take(desk, "parent").id, rouse(desk.clerk)) == (parent, 0)


def test_the_members_of_a_family_can_be_found(desk: Desk, store: Store) -> None:
    parent, children = waiting_family(desk, 3)
    found = store.find(Filter(parent_id=parent))
    assert [job.id for job in found] == children
    waiting = store.find(Filter(waits_for="children"))
    assert [job.id for job in waiting] == [parent]
