"""Names only one job may have: unique keys among the living, references among all kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stoker.desk import Desk, Placement, Twin
from stoker.errors import Duplicate
from stoker.kernel.job import Format, Job, State
from stoker.kernel.outcome import Awaits
from stoker.kernel.policy import Policy
from stoker.kernel.queue import QueueSettings, Retention
from stoker.store import Store
from tests.engines import VirtualClock
from tests.store.conformance.acts import (
    BROKEN,
    Facts,
    put,
    running,
    seen,
    snapshot,
    state,
    take,
    take_all,
)

NAMES = ["unique_key", "ref"]


def named(name: str, **facts: Any) -> Job:
    """A job that has the name x, of this kind."""
    return Job("q", **(facts | {name: "x"}))


@pytest.mark.parametrize("name", NAMES)
def test_a_second_job_of_the_same_name_is_refused(desk: Desk, store: Store, name: str) -> None:
    first = put(desk, **{name: "x"})
    before = snapshot(store)
    with pytest.raises(Duplicate, match=f"job {first} has the same") as caught:
        put(desk, "elsewhere", **{name: "x"})
    assert caught.value.existing_id == first
    assert snapshot(store) == before


@pytest.mark.parametrize("name", NAMES)
def test_the_job_that_is_there_can_stand_for_the_new_one(
    desk: Desk, store: Store, name: str
) -> None:
    first = put(desk, payload=b"1", **{name: "x"})
    before = snapshot(store)
    placed = desk.intake.enqueue(named(name, payload=b"2"), twin=Twin.RETURN)
    assert placed == Placement(first, fresh=False)
    assert snapshot(store) == before


@pytest.mark.parametrize("name", NAMES)
def test_the_job_that_is_there_can_take_over_what_the_new_one_says(desk: Desk, name: str) -> None:
    first = put(desk, payload=b"1", rank=1, key="k", **{name: "x"})
    policy = Policy(repeat="FINISHED, +1 HOUR")
    news = Job("q", payload=b"2", format=Format.TEXT, rank=9, meta="m", policy=policy)
    twin = desk.intake.enqueue(named(name, **_facts(news)), twin=Twin.UPDATE)
    assert twin == Placement(first, fresh=False)
    after = seen(desk, first)
    assert _facts(after) == _facts(news)
    assert (after.key, after.id) == ("k", first)


def _facts(job: Job) -> Facts:
    return {f: getattr(job, f) for f in ("payload", "format", "rank", "meta", "policy")}


def test_a_running_job_takes_over_all_but_the_rank(desk: Desk) -> None:
    job = running(desk, rank=1, unique_key="x")
    desk.intake.enqueue(Job("q", payload=b"2", rank=9, unique_key="x"), twin=Twin.UPDATE)
    after = seen(desk, job.id)
    assert (after.payload, after.rank, after.state) == (b"2", 1, State.RUNNING)
    assert desk.report.finish(job).state is State.FINISHED


def test_different_names_do_not_get_in_each_others_way(desk: Desk) -> None:
    ids = [put(desk, unique_key="a", ref="b"), put(desk, unique_key="b", ref="a"), put(desk)]
    assert take_all(desk) == ids


# -- how long a name is taken --------------------------------------------------------------

LIVES: dict[str, Callable[[Desk], int]] = {
    "queued": lambda desk: put(desk, unique_key="x"),
    "running": lambda desk: running(desk, unique_key="x").id,
    "waiting": lambda desk: desk.report.wait(running(desk, unique_key="x"), Awaits("k")).id,
    "queued again": lambda desk: desk.report.release(running(desk, unique_key="x")).id,
}
ENDS: dict[str, Callable[[Desk], int]] = {
    "finished": lambda desk: desk.report.finish(running(desk, unique_key="x", ref="r")).id,
    "failed": lambda desk: desk.report.fail(running(desk, unique_key="x", ref="r"), BROKEN).id,
    "cancelled": lambda desk: desk.control.cancel(put(desk, unique_key="x", ref="r")).id,
}


@pytest.mark.parametrize("live", LIVES.values(), ids=LIVES)
def test_a_unique_key_is_taken_as_long_as_the_job_lives(
    desk: Desk, live: Callable[[Desk], int]
) -> None:
    first = live(desk)
    with pytest.raises(Duplicate) as caught:
        put(desk, unique_key="x")
    assert caught.value.existing_id == first


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_unique_key_is_free_when_the_job_has_ended_but_its_reference_is_not(
    desk: Desk, end: Callable[[Desk], int]
) -> None:
    first = end(desk)
    second = put(desk, unique_key="x")
    assert second != first
    with pytest.raises(Duplicate) as caught:
        put(desk, ref="r")
    assert caught.value.existing_id == first


def test_both_names_are_free_when_the_job_is_gone(desk: Desk) -> None:
    first = put(desk, unique_key="x", ref="r")
    desk.control.delete(first)
    assert put(desk, unique_key="x", ref="r") > first


def test_both_names_are_free_when_an_ended_job_is_not_kept(desk: Desk) -> None:
    desk.control.configure("q", QueueSettings(retention=Retention(finished=0)))
    desk.report.finish(running(desk, unique_key="x", ref="r"))
    assert state(desk, put(desk, unique_key="x", ref="r")) is State.QUEUED


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_ended_job_cannot_be_revived_beside_its_twin(
    desk: Desk, store: Store, end: Callable[[Desk], int]
) -> None:
    first = end(desk)
    second = put(desk, unique_key="x")
    before = snapshot(store)
    with pytest.raises(Duplicate) as caught:
        desk.control.revive(first)
    assert caught.value.existing_id == second
    assert snapshot(store) == before
    desk.control.delete(second)
    assert desk.control.revive(first).state is State.QUEUED


def test_a_job_cannot_be_edited_into_a_twin(desk: Desk, store: Store) -> None:
    first, second = put(desk, unique_key="x"), put(desk, unique_key="y")
    before = snapshot(store)
    with pytest.raises(Duplicate) as caught:
        desk.control.edit(second, {"unique_key": "x", "payload": b"new"})
    assert caught.value.existing_id == first
    assert snapshot(store) == before


def test_an_edited_unique_key_frees_the_old_one_and_takes_the_new_one(desk: Desk) -> None:
    first = put(desk, unique_key="x")
    desk.control.edit(first, {"unique_key": "y"})
    second = put(desk, unique_key="x")
    with pytest.raises(Duplicate):
        put(desk, unique_key="y")
    desk.control.edit(first, {"unique_key": None})
    assert put(desk, unique_key="y") > second


def test_a_job_may_keep_its_own_name_in_an_edit(desk: Desk) -> None:
    first = put(desk, unique_key="x", ref="r")
    after = desk.control.edit(first, {"unique_key": "x", "payload": b"new"})
    assert (after.unique_key, after.payload) == ("x", b"new")


def test_a_repeating_job_keeps_its_name_between_its_runs(desk: Desk, clock: VirtualClock) -> None:
    policy = Policy(repeat="FINISHED, +1 HOUR")
    job = running(desk, unique_key="x", policy=policy)
    desk.report.finish(job)
    with pytest.raises(Duplicate):
        put(desk, unique_key="x")


# -- in one call ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_twins_in_one_call_are_refused_together(desk: Desk, store: Store, name: str) -> None:
    before = snapshot(store)
    with pytest.raises(Duplicate, match="two jobs of this call"):
        desk.intake.enqueue_many([Job("q"), named(name), named(name)])
    assert snapshot(store) == before


@pytest.mark.parametrize("name", NAMES)
def test_twins_in_one_call_share_one_job(desk: Desk, name: str) -> None:
    jobs = [named(name, payload=b"%d" % number) for number in range(3)]
    placed = desk.intake.enqueue_many([jobs[0], Job("q"), *jobs[1:]], twin=Twin.RETURN)
    first, other, second, third = placed
    assert first.fresh and other.fresh
    assert second == third == Placement(first.id, fresh=False)
    assert seen(desk, first.id).payload == b"0"
    assert take_all(desk) == [first.id, other.id]


@pytest.mark.parametrize("name", NAMES)
def test_of_twins_in_one_call_the_last_has_the_last_word(desk: Desk, name: str) -> None:
    jobs = [named(name, payload=b"%d" % number, rank=number) for number in range(3)]
    placed = desk.intake.enqueue_many(jobs, twin=Twin.UPDATE)
    assert len({each.id for each in placed}) == 1
    after = seen(desk, placed[0].id)
    assert (after.payload, after.rank) == (b"2", 2)


@pytest.mark.parametrize("twin", [Twin.RETURN, Twin.UPDATE])
def test_one_call_may_mix_new_jobs_with_twins_of_old_ones(desk: Desk, twin: Twin) -> None:
    old = put(desk, payload=b"old", unique_key="x")
    jobs = [
        Job("q", payload=b"a"),
        Job("q", payload=b"b", unique_key="x"),
        Job("q", payload=b"c", unique_key="y"),
        Job("q", payload=b"d", unique_key="x"),
    ]
    first, second, third, fourth = desk.intake.enqueue_many(jobs, twin=twin)
    assert (second, fourth) == (Placement(old, fresh=False),) * 2
    assert first.fresh and third.fresh
    assert seen(desk, old).payload == (b"old" if twin is Twin.RETURN else b"d")
    assert take_all(desk) == [old, first.id, third.id]


def test_a_job_that_is_turned_away_takes_no_name_with_it(desk: Desk) -> None:
    old = put(desk, ref="r")
    turned_away, fresh = desk.intake.enqueue_many(
        [Job("q", unique_key="x", ref="r"), Job("q", payload=b"new", unique_key="x")],
        twin=Twin.RETURN,
    )
    assert turned_away == Placement(old, fresh=False)
    assert fresh.fresh
    assert seen(desk, fresh.id).payload == b"new"


def test_a_name_that_one_job_of_a_batch_gives_up_can_be_taken_by_the_next(desk: Desk) -> None:
    job = running(desk, unique_key="x")
    desk.report.finish(job)
    placed = desk.intake.enqueue(Job("q", unique_key="x"))
    assert take(desk).id == placed.id
