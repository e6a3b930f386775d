"""Parents and children: held, released, counted, and never left hanging."""

from __future__ import annotations

import pytest

from stoker.desk import Desk
from stoker.errors import Duplicate, IllegalMove, NotFound
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Awaits, Finished
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.queue import QueueSettings, Retention
from stoker.kernel.retry_forms import fixed
from stoker.store import Adrift, Store
from stoker.watch.recover import recover
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    BROKEN,
    HOUR,
    SECOND,
    exists,
    put,
    running,
    seen,
    snapshot,
    state,
    take,
    take_all,
)
from tests.store.conformance.kin import CHILD, counts, end, family_of, waiting_family

# -- spawning ------------------------------------------------------------------------------


def test_children_of_a_running_parent_are_held(desk: Desk) -> None:
    parent, children = family_of(desk, 3)
    assert counts(seen(desk, parent.id)) == (3, 0, 0, 0)
    assert take_all(desk, "child") == []
    for child in children:
        held = seen(desk, child)
        assert (held.state, held.waits_for) == (State.WAITING, "parent")
        assert held.parent_id == parent.id


def test_children_of_a_waiting_parent_may_start_at_once(desk: Desk) -> None:
    parent, (child,) = waiting_family(desk, 1)
    (sibling,) = desk.intake.spawn(seen(desk, parent), [CHILD])
    assert counts(seen(desk, parent)) == (2, 0, 0, 0)
    assert take_all(desk, "child") == [child, sibling]


@pytest.mark.parametrize("ending", ["queued", "finished", "failed", "cancelled"])
def test_only_running_and_waiting_jobs_can_have_children(
    desk: Desk, store: Store, ending: str
) -> None:
    if ending == "queued":
        parent = seen(desk, put(desk))
    elif ending == "finished":
        parent = desk.report.finish(running(desk))
    elif ending == "failed":
        parent = desk.report.fail(running(desk), BROKEN)
    else:
        parent = desk.control.cancel(put(desk))
    before = snapshot(store)
    with pytest.raises(IllegalMove, match="cannot spawn"):
        desk.intake.spawn(parent, [CHILD])
    assert snapshot(store) == before


def test_a_job_that_waits_for_a_reply_or_its_parent_can_have_no_children(
    desk: Desk, store: Store
) -> None:
    _, (held,) = family_of(desk, 1)
    asking = desk.report.wait(running(desk), Awaits("k"))
    before = snapshot(store)
    for parent in (seen(desk, held), asking):
        with pytest.raises(IllegalMove, match="not for children"):
            desk.intake.spawn(parent, [CHILD])
    assert snapshot(store) == before


def test_there_are_no_children_of_a_job_that_is_gone(desk: Desk) -> None:
    parent, _ = waiting_family(desk, 1)
    copy = seen(desk, parent)
    desk.control.delete(parent)
    with pytest.raises(NotFound):
        desk.intake.spawn(copy, [CHILD])


def test_children_are_spawned_all_or_none(desk: Desk, store: Store) -> None:
    put(desk, unique_key="taken")
    parent = running(desk, "parent")
    before = snapshot(store)
    with pytest.raises(Duplicate):
        desk.intake.spawn(parent, [CHILD, Job("child", unique_key="taken")])
    assert snapshot(store) == before


def test_a_child_keeps_all_that_was_said_about_it(desk: Desk, clock: VirtualClock) -> None:
    parent = running(desk, "parent")
    asked = Job("child", payload=b"x" * 5000, rank=3, key="k", weight=500, due_at=clock.now + 9)
    (child_id,) = desk.intake.spawn(parent, [asked])
    desk.report.finish(parent)
    clock.now += 9
    child = take(desk, "child")
    assert child.id == child_id
    for fact in ("payload", "rank", "key", "weight", "due_at"):
        assert getattr(child, fact) == getattr(asked, fact), fact


# -- the parent's part is done -------------------------------------------------------------


def test_a_parent_that_finishes_waits_and_its_children_are_released(desk: Desk) -> None:
    parent, children = family_of(desk, 3)
    after = desk.report.finish(parent, b"part one")
    assert (after.state, after.waits_for, after.result) == (State.WAITING, "children", b"part one")
    assert (after.token, after.until) == (None, None)
    assert take_all(desk, "child", "parent") == children


@pytest.mark.parametrize(
    ("how", "expected"),
    [("finished", (0, 1, 0, 0)), ("failed", (0, 0, 1, 0)), ("cancelled", (0, 0, 0, 1))],
)
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "not kept"])
def test_a_parent_wakes_when_its_last_child_has_ended_however_it_ended(
    desk: Desk, how: str, expected: tuple[int, ...], kept: bool
) -> None:
    if not kept:
        desk.control.configure(
            "child", QueueSettings(retention=Retention(finished=0, failed=0, cancelled=0))
        )
    parent, (child,) = waiting_family(desk, 1)
    end(desk, take(desk, "child"), how)
    assert exists(desk, child) == kept
    woken = seen(desk, parent)
    assert (woken.state, woken.waits_for, counts(woken)) == (State.QUEUED, None, expected)


@pytest.mark.parametrize("act", ["cancel", "delete"])
def test_a_queued_child_that_is_cancelled_or_deleted_counts_as_cancelled(
    desk: Desk, act: str
) -> None:
    parent, (child,) = waiting_family(desk, 1)
    getattr(desk.control, act)(child)
    woken = seen(desk, parent)
    assert (woken.state, counts(woken)) == (State.QUEUED, (0, 0, 0, 1))


def test_a_held_child_can_be_cancelled_before_the_parent_is_done(desk: Desk) -> None:
    parent, (child,) = family_of(desk, 1)
    desk.control.cancel(child)
    assert counts(seen(desk, parent.id)) == (0, 0, 0, 1)
    assert state(desk, parent.id) is State.RUNNING
    assert desk.report.finish(parent).state is State.FINISHED


def test_deleting_a_child_that_has_ended_is_not_counted_again(desk: Desk) -> None:
    parent, (first, _) = waiting_family(desk, 2)
    desk.report.finish(take(desk, "child"))
    desk.control.delete(first)
    assert counts(seen(desk, parent)) == (1, 1, 0, 0)


def test_a_child_that_is_tried_again_is_still_open(desk: Desk) -> None:
    parent = running(desk, "parent")
    desk.intake.spawn(parent, [Job("child", policy=Policy(retry=fixed(0, limit=1)))])
    desk.report.finish(parent)
    desk.report.fail(take(desk, "child"), BROKEN)
    assert state(desk, parent.id) is State.WAITING
    desk.report.fail(take(desk, "child"), BROKEN)
    assert state(desk, parent.id) is State.QUEUED


def test_a_lost_child_that_fails_wakes_its_parent(desk: Desk, clock: VirtualClock) -> None:
    parent = running(desk, "parent")
    desk.intake.spawn(parent, [Job("child", policy=Policy(on_lost=OnLost.FAIL))])
    desk.report.finish(parent)
    take(desk, "child", visibility=SECOND)
    clock.pass_(1)
    recover(desk.clerk)
    assert counts(seen(desk, parent.id)) == (0, 0, 1, 0)
    assert state(desk, parent.id) is State.QUEUED


def test_a_woken_parent_goes_on_with_the_same_try_in_its_old_place(
    desk: Desk, clock: VirtualClock
) -> None:
    parent, _ = waiting_family(desk, 1)
    rival = put(desk, "parent")
    clock.pass_(1)
    desk.report.finish(take(desk, "child"))
    again = take(desk, "parent")
    assert (again.id, again.attempt, again.finished_children) == (parent, 1, 1)
    assert take(desk, "parent").id == rival


def test_a_parent_that_has_no_more_children_finishes_for_good(desk: Desk) -> None:
    parent, _ = waiting_family(desk, 1)
    desk.report.finish(take(desk, "child"))
    assert desk.report.finish(take(desk, "parent"), b"all").state is State.FINISHED
    assert counts(seen(desk, parent)) == (0, 1, 0, 0)


def test_a_woken_parent_may_have_children_again(desk: Desk) -> None:
    parent, _ = waiting_family(desk, 1)
    desk.report.finish(take(desk, "child"))
    again = take(desk, "parent")
    desk.intake.spawn(again, [CHILD])
    assert desk.report.finish(again).state is State.WAITING
    desk.report.fail(take(desk, "child"), BROKEN)
    assert counts(seen(desk, parent)) == (0, 1, 1, 0)
    assert state(desk, parent) is State.QUEUED


def test_a_hundred_children_wake_their_parent_only_together(desk: Desk) -> None:
    parent, children = waiting_family(desk, 100)
    jobs = desk.dispatch.claim(["child"], 1000)
    assert [job.id for job in jobs] == children
    for number, job in enumerate(jobs[:-1]):
        end(desk, job, ("finished", "failed", "cancelled")[number % 3])
    assert state(desk, parent) is State.WAITING
    desk.report.finish(jobs[-1])
    assert counts(seen(desk, parent)) == (0, 34, 33, 33)
    assert state(desk, parent) is State.QUEUED


def test_more_children_than_fit_on_one_page_are_released_together(desk: Desk) -> None:
    _, children = waiting_family(desk, 1200)
    assert len(take_all(desk, "child")) + len(take_all(desk, "child")) == len(children)


def test_children_reported_in_one_step_wake_their_parent_once(desk: Desk, store: Store) -> None:
    parent, _ = waiting_family(desk, 5)
    jobs = desk.dispatch.claim(["child"], 5)
    desk.report.many([(job, Finished()) for job in jobs])
    assert (state(desk, parent), counts(seen(desk, parent))) == (State.QUEUED, (0, 5, 0, 0))
    assert store.find(Adrift()) == []


def test_grandchildren_come_before_children_and_children_before_parents(desk: Desk) -> None:
    top, (middle,) = waiting_family(desk, 1)
    child = take(desk, "child")
    (bottom,) = desk.intake.spawn(child, [Job("grandchild")])
    desk.report.finish(child)
    assert [state(desk, each) for each in (top, middle)] == [State.WAITING, State.WAITING]
    desk.report.finish(take(desk, "grandchild"))
    assert [state(desk, each) for each in (top, middle, bottom)] == [
        State.WAITING,
        State.QUEUED,
        State.FINISHED,
    ]
    desk.report.finish(take(desk, "child"))
    assert state(desk, top) is State.QUEUED


def test_a_repeating_parent_waits_for_its_children_in_every_round(
    desk: Desk, clock: VirtualClock
) -> None:
    parent = running(desk, "parent", policy=Policy(repeat="FINISHED, +1 HOUR"))
    for _ in range(3):
        desk.intake.spawn(parent, [CHILD] * 2)
        assert desk.report.finish(parent).state is State.WAITING
        for job in desk.dispatch.claim(["child"], 9):
            desk.report.finish(job)
        resumed = take(desk, "parent")
        assert resumed.finished_children == 2
        after = desk.report.finish(resumed)
        assert (after.state, after.due_at) == (State.QUEUED, clock.now + HOUR)
        assert counts(after) == (0, 0, 0, 0)
        clock.pass_(3600)
        parent = take(desk, "parent")
