"""Families and schedules: each rule's Change, to the letter."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.errors import BadInput, IllegalMove
from stoker.kernel import family
from stoker.kernel.change import NOTHING, Change, Write
from stoker.kernel.control import cancel, enqueue
from stoker.kernel.job import Format, Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.queue import QueueSettings, Retention
from stoker.kernel.rules import wake
from stoker.kernel.window import parse_windows
from tests.kernel.samples import DAY, HOUR, MINUTE, NOW, SECOND, job_in

CHILDREN = (Job("a", payload=b"1", due_at=NOW + 5), Job("b", key="k"))
WAITING = job_in(State.WAITING, waits_for="children", open_children=1)
HELD = job_in(State.WAITING, id=6, waits_for="parent", parent_id=5, started_at=None, attempt=0)


# -- spawn ---------------------------------------------------------------------------------


def test_children_of_a_running_parent_are_held_and_counted() -> None:
    parent = job_in(State.RUNNING, open_children=1)
    held = tuple(
        msgspec.structs.replace(child, parent_id=5, state=State.WAITING, waits_for="parent")
        for child in CHILDREN
    )
    assert family.spawn(parent, CHILDREN) == Change(
        inserts=held, writes=(Write(parent, {"open_children": 3}),)
    )


def test_children_of_a_waiting_parent_may_start_at_once() -> None:
    free = tuple(msgspec.structs.replace(child, parent_id=5) for child in CHILDREN)
    assert family.spawn(WAITING, CHILDREN) == Change(
        inserts=free, writes=(Write(WAITING, {"open_children": 3}),)
    )


@pytest.mark.parametrize("waits_for", ["parent", "tick", "reply:k"])
def test_who_waits_for_something_else_can_have_no_children(waits_for: str) -> None:
    parent = job_in(State.WAITING, waits_for=waits_for)
    with pytest.raises(IllegalMove, match=f"waits for {waits_for}, not for children"):
        family.spawn(parent, CHILDREN)


def test_a_schedule_with_overlapping_runs_cannot_be_a_child() -> None:
    (schedule,) = enqueue(
        Job("q", policy=Policy(repeat="every 1m; overlap=allow")), now=NOW
    ).inserts
    with pytest.raises(BadInput, match="cannot be a child"):
        family.spawn(job_in(State.RUNNING), (schedule,))


# -- resume and unhold ---------------------------------------------------------------------


def test_a_parent_goes_on_when_nothing_is_left_to_wait_for() -> None:
    ready = job_in(State.WAITING, waits_for="children", open_children=0)
    assert family.resume(ready) == wake(ready)


@pytest.mark.parametrize(
    "parent",
    [WAITING, job_in(State.QUEUED), job_in(State.RUNNING), job_in(State.CANCELLED)],
    ids=["children left", "queued", "running", "ended"],
)
def test_a_parent_that_has_something_left_or_does_not_wait_is_left_alone(parent: Job) -> None:
    assert family.resume(parent) is NOTHING


def test_a_held_child_starts_when_its_parent_waits_for_it() -> None:
    assert family.unhold(HELD, WAITING, now=NOW) == wake(HELD)


@pytest.mark.parametrize(
    "parent",
    [None, *(job_in(state) for state in (State.FINISHED, State.FAILED, State.CANCELLED))],
    ids=["gone", "finished", "failed", "cancelled"],
)
@pytest.mark.parametrize("kept", [DAY, 0])
def test_a_held_child_is_cancelled_when_its_parent_is_over(parent: Job | None, kept: int) -> None:
    settings = QueueSettings(retention=Retention(cancelled=kept))
    change = family.unhold(HELD, parent, now=NOW, settings=settings)
    assert change == cancel(HELD, now=NOW, settings=settings)


@pytest.mark.parametrize(
    "parent",
    [job_in(State.RUNNING), job_in(State.QUEUED), job_in(State.WAITING, waits_for="reply:k")],
    ids=["running", "queued", "waiting for a reply"],
)
def test_a_held_child_stays_held_while_its_parent_has_work_to_do(parent: Job) -> None:
    assert family.unhold(HELD, parent, now=NOW) is NOTHING


# -- tick ----------------------------------------------------------------------------------


def schedule(repeat: str = "every 10m; overlap=allow", **facts: Any) -> Job:
    usual = {"waits_for": "tick", "until": NOW, "due_at": NOW, "scheduled_at": NOW, "attempt": 0}
    policy = Policy(repeat=repeat, timeout=HOUR)
    return job_in(State.WAITING, **({"policy": policy, "started_at": None} | usual | facts))


def test_a_tick_makes_a_run_like_the_schedule_and_moves_the_schedule_on() -> None:
    like: dict[str, Any] = {
        "name": "n",
        "payload": b"p",
        "format": Format.BYTES,
        "rank": 3,
        "weight": 500,
        "key": "k",
        "meta": "m",
    }
    ticking = schedule(**like, unique_key="u", ref="r")
    run = Job(
        "q",
        due_at=NOW,
        scheduled_at=NOW,
        created_at=NOW + SECOND,
        ref=f"5@{NOW}",
        policy=Policy(timeout=HOUR),
        **like,
    )
    following = NOW + 10 * MINUTE
    moved = {"scheduled_at": following, "due_at": following, "until": following}
    assert family.tick(ticking, now=NOW + SECOND) == Change(
        inserts=(run,), writes=(Write(ticking, moved),)
    )


def test_a_run_keeps_the_windows_of_its_schedule_and_so_does_the_next_tick() -> None:
    windows = parse_windows("05:00-07:00")
    dawn = NOW - NOW % DAY + DAY + 5 * HOUR
    policy = Policy(repeat="every 10m; overlap=allow", windows=windows)
    change = family.tick(schedule(policy=policy), now=NOW)
    assert change.inserts[0].policy.windows == windows
    assert change.writes[0].set == {
        "scheduled_at": NOW + 10 * MINUTE,
        "due_at": dawn,
        "until": dawn,
    }


def test_two_looks_at_the_same_tick_name_the_run_alike() -> None:
    first, second = (family.tick(schedule(), now=NOW + late) for late in (0, 7 * SECOND))
    assert first.inserts[0].ref == second.inserts[0].ref == f"5@{NOW}"


def test_ticks_that_were_slept_through_are_made_up_for_as_told() -> None:
    late = NOW + 65 * MINUTE
    for missed, expected in [("skip", 70), ("latest", 60), ("all:3", 40)]:
        repeat = f"every 10m; overlap=allow; missed={missed}"
        (write,) = family.tick(schedule(repeat), now=late).writes
        assert write.set["scheduled_at"] == NOW + expected * MINUTE
