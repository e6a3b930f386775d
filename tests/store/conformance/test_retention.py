"""How long ended jobs are kept, and what the sweep takes away."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.kernel.outcome import Finished
from stoker.kernel.queue import QueueSettings, Retention
from stoker.store import Forgettable, Store
from stoker.watch.sweep import sweep
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    BROKEN,
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Facts,
    exists,
    put,
    running,
    seen,
    state,
    take,
)

ENDS = {State.FINISHED: "finished", State.FAILED: "failed", State.CANCELLED: "cancelled"}
USUAL = {State.FINISHED: HOUR, State.FAILED: 30 * DAY, State.CANCELLED: DAY}

each_end = pytest.mark.parametrize("end", ENDS, ids=ENDS.values())


def ended(desk: Desk, end: State, **facts: Any) -> int:
    if end is State.CANCELLED:
        return desk.control.cancel(put(desk, **facts)).id
    job = running(desk, **facts)
    if end is State.FINISHED:
        return desk.report.finish(job).id
    return desk.report.fail(job, BROKEN).id


def keep(desk: Desk, end: State, duration: int | None) -> None:
    retention = Retention(**{ENDS[end]: duration})
    desk.control.configure("q", QueueSettings(retention=retention))


def forgettable(store: Store) -> list[int]:
    return [job.id for job in store.find(Forgettable())]


@each_end
def test_an_ended_job_is_kept_as_long_as_usual(
    desk: Desk, store: Store, clock: VirtualClock, end: State
) -> None:
    job_id = ended(desk, end)
    assert seen(desk, job_id).until == clock.now + USUAL[end]
    clock.now += USUAL[end] - 1
    assert (forgettable(store), sweep(desk.clerk)) == ([], 0)
    assert state(desk, job_id) is end
    clock.now += 1
    assert forgettable(store) == [job_id]
    assert sweep(desk.clerk) == 1
    assert not exists(desk, job_id)


@each_end
def test_an_ended_job_is_kept_as_long_as_its_queue_says(
    desk: Desk, clock: VirtualClock, end: State
) -> None:
    keep(desk, end, MINUTE)
    job_id = ended(desk, end)
    clock.pass_(60)
    assert sweep(desk.clerk) == 1
    assert not exists(desk, job_id)


@each_end
@pytest.mark.parametrize("facts", [{}, {"key": "k"}, {"payload": b"x" * 5000, "weight": 0}])
def test_an_ended_job_that_is_not_to_be_kept_is_gone_at_once(
    desk: Desk, store: Store, end: State, facts: Facts
) -> None:
    keep(desk, end, 0)
    job_id = ended(desk, end, **facts)
    assert not exists(desk, job_id)
    (view,) = store.survey(["q"])
    assert (set(view.counts.values()), view.used) == ({0}, 0)


@each_end
def test_an_ended_job_may_be_kept_for_ever(desk: Desk, clock: VirtualClock, end: State) -> None:
    keep(desk, end, None)
    job_id = ended(desk, end)
    assert seen(desk, job_id).until is None
    clock.now += 1000 * 365 * DAY
    assert sweep(desk.clerk) == 0
    assert state(desk, job_id) is end


def test_each_ending_is_kept_by_its_own_rule(desk: Desk, clock: VirtualClock) -> None:
    retention = Retention(finished=0, failed=None, cancelled=MINUTE)
    desk.control.configure("q", QueueSettings(retention=retention))
    finished, failed, cancelled = (ended(desk, end) for end in ENDS)
    assert [exists(desk, each) for each in (finished, failed, cancelled)] == [False, True, True]
    clock.pass_(60)
    sweep(desk.clerk)
    assert [exists(desk, each) for each in (failed, cancelled)] == [True, False]


def test_the_rule_at_the_moment_of_the_end_is_the_one_that_counts(
    desk: Desk, clock: VirtualClock
) -> None:
    job = running(desk)
    keep(desk, State.FINISHED, MINUTE)
    desk.report.finish(job)
    keep(desk, State.FINISHED, None)
    clock.pass_(60)
    assert sweep(desk.clerk) == 1


def test_jobs_that_live_are_never_swept(desk: Desk, clock: VirtualClock) -> None:
    queued = put(desk, rank=1)
    held = running(desk)
    clock.now += 365 * DAY
    assert sweep(desk.clerk) == 0
    assert exists(desk, queued) and exists(desk, held.id)


def test_a_revived_job_is_not_swept(desk: Desk, clock: VirtualClock) -> None:
    job_id = ended(desk, State.FINISHED)
    desk.control.revive(job_id)
    clock.now += DAY
    assert sweep(desk.clerk) == 0
    assert state(desk, job_id) is State.QUEUED


def test_more_old_jobs_than_one_turn_takes_are_swept_in_several(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    desk.intake.enqueue_many([Job("q")] * 700)
    jobs = desk.dispatch.claim(["q"], 1000)
    desk.report.many([(job, Finished()) for job in jobs])
    clock.now += HOUR
    assert [sweep(desk.clerk), sweep(desk.clerk), sweep(desk.clerk)] == [500, 200, 0]
    assert store.survey() == []


# -- families ------------------------------------------------------------------------------


def test_a_child_is_kept_as_long_as_its_parent_lives(desk: Desk, clock: VirtualClock) -> None:
    parent = running(desk, "parent")
    first, _ = desk.intake.spawn(parent, [Job("child"), Job("child", due_at=clock.now + 90 * DAY)])
    desk.report.finish(parent)
    desk.report.finish(take(desk, "child"))
    clock.now += 2 * HOUR
    sweep(desk.clerk)
    assert exists(desk, first)
    assert sweep(desk.clerk) == 0
    desk.control.cancel(parent.id)
    clock.now += 2 * HOUR
    sweep(desk.clerk)
    assert not exists(desk, first)


def test_a_child_whose_parent_is_gone_is_swept(desk: Desk, clock: VirtualClock) -> None:
    parent = running(desk, "parent")
    first, _ = desk.intake.spawn(parent, [Job("child")] * 2)
    desk.report.finish(parent)
    desk.report.finish(take(desk, "child"))
    desk.control.delete(parent.id)
    clock.now += HOUR
    assert sweep(desk.clerk) == 1
    assert not exists(desk, first)


# -- tidying -------------------------------------------------------------------------------


def names(store: Store) -> list[str]:
    return [view.name for view in store.survey()]


def test_an_empty_queue_that_nobody_configured_is_forgotten(desk: Desk, store: Store) -> None:
    desk.control.delete(put(desk, "empty"))
    put(desk, "busy")
    assert names(store) == ["busy", "empty"]
    sweep(desk.clerk)
    assert names(store) == ["busy"]


@pytest.mark.parametrize(
    "settings",
    [
        QueueSettings(capacity=1),
        QueueSettings(paused=True),
        QueueSettings(keys={"k": 2}),
        QueueSettings(retention=Retention(finished=0)),
    ],
    ids=["capacity", "paused", "keys", "retention"],
)
def test_an_empty_queue_that_was_configured_is_kept(
    desk: Desk, store: Store, settings: QueueSettings
) -> None:
    desk.control.configure("q", settings)
    store.tidy()
    (view,) = store.survey()
    assert (view.name, view.settings) == ("q", settings)


def test_a_queue_set_back_to_what_is_usual_is_forgotten(desk: Desk, store: Store) -> None:
    desk.control.configure("q", QueueSettings(capacity=1))
    desk.control.configure("q", QueueSettings())
    store.tidy()
    assert store.survey() == []


def test_a_forgotten_queue_comes_back_when_it_is_named_again(desk: Desk, store: Store) -> None:
    desk.control.delete(put(desk, key="k"))
    store.tidy()
    job_id = put(desk, key="k")
    assert names(store) == ["q"]
    assert take(desk).id == job_id


def test_tidying_takes_away_notes_that_are_out_of_date(
    desk: Desk, store: Store, clock: VirtualClock
) -> None:
    desk.control.reply("k", b"1")
    clock.now += MINUTE + SECOND
    store.tidy()
    assert store.notes(["reply:k"]) == {}
    assert desk.control.reply("k", b"2").value == "kept"
