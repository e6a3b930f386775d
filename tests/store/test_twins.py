"""Names only one job may have: who would be whose twin."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.kernel.change import Change, Write
from stoker.kernel.job import ENDED, LIVE, Job, State
from stoker.store.twins import Name, find_twins, names_held

UNIQUE: Name = ("unique", "x")
REF: Name = ("ref", "x")
HELD: dict[Name, int] = {("unique", "x"): 7, ("ref", "x"): 8}


def job(job_id: int = 0, **facts: Any) -> Job:
    return Job("q", id=job_id, **facts)


def twins(change: Change, held: dict[Name, int] = HELD) -> dict[int, int]:
    return find_twins(change, held.get)


# -- names held ----------------------------------------------------------------------------


def test_a_job_that_is_gone_or_has_no_names_holds_none() -> None:
    assert names_held(None) == []
    assert names_held(job()) == []


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_living_job_holds_both_its_names(state: State) -> None:
    assert names_held(job(state=state, unique_key="x", ref="x")) == [UNIQUE, REF]


@pytest.mark.parametrize("state", sorted(ENDED))
def test_an_ended_job_holds_its_reference_only(state: State) -> None:
    assert names_held(job(state=state, unique_key="x", ref="x")) == [REF]


def test_an_empty_name_is_a_name() -> None:
    assert names_held(job(unique_key="", ref="")) == [("unique", ""), ("ref", "")]


# -- twins ---------------------------------------------------------------------------------


def test_jobs_without_names_and_with_free_names_are_nobodys_twins() -> None:
    change = Change(inserts=(job(), job(unique_key="y", ref="y")))
    assert twins(change) == {}


@pytest.mark.parametrize(("facts", "holder"), [({"unique_key": "x"}, 7), ({"ref": "x"}, 8)])
def test_a_new_job_is_the_twin_of_whoever_holds_its_name(
    facts: dict[str, Any], holder: int
) -> None:
    assert twins(Change(inserts=(job(), job(**facts)))) == {1: holder}


def test_the_unique_key_is_looked_at_before_the_reference() -> None:
    assert twins(Change(inserts=(job(unique_key="x", ref="x"),))) == {0: 7}


def test_a_key_and_a_reference_of_the_same_text_are_different_names() -> None:
    change = Change(inserts=(job(unique_key="y"), job(ref="y")))
    assert twins(change) == {}


def test_new_jobs_of_one_change_can_be_each_others_twins() -> None:
    change = Change(inserts=(job(ref="y"), job(), job(ref="y"), job(ref="y")))
    assert twins(change) == {2: 0, 3: 0}


def test_a_job_that_is_a_twin_itself_takes_no_name_from_those_behind_it() -> None:
    turned_away, next_one = job(unique_key="y", ref="x"), job(unique_key="y")
    assert twins(Change(inserts=(turned_away, next_one))) == {0: 8}


def test_a_new_job_that_has_ended_needs_no_unique_key_of_its_own() -> None:
    ended = job(state=State.FINISHED, unique_key="x")
    assert twins(Change(inserts=(ended,))) == {}


# -- writes --------------------------------------------------------------------------------


def test_a_write_that_takes_a_held_name_is_found_by_its_place_below_zero() -> None:
    writes = (Write(job(1), {"meta": "m"}), Write(job(2), {"unique_key": "x"}))
    assert twins(Change(writes=writes)) == {-2: 7}


def test_a_job_is_not_its_own_twin() -> None:
    writes = (Write(job(7, unique_key="x"), {"payload": b""}),)
    assert twins(Change(writes=writes)) == {}


def test_a_job_that_comes_back_to_life_needs_its_key_again() -> None:
    ended = job(3, state=State.FAILED, unique_key="x")
    assert twins(Change(writes=(Write(ended, {"state": State.QUEUED}),))) == {-1: 7}
    free: dict[Name, int] = {}
    assert twins(Change(writes=(Write(ended, {"state": State.QUEUED}),)), free) == {}


def test_a_new_job_can_be_the_twin_of_one_that_is_written() -> None:
    change = Change(writes=(Write(job(3), {"unique_key": "y"}),), inserts=(job(unique_key="y"),))
    assert twins(change) == {0: 3}


# -- names set free ------------------------------------------------------------------------

NEW = job(unique_key="x")
HOLDER = job(7, unique_key="x")


@pytest.mark.parametrize(
    "freeing",
    [
        Change(deletes=(HOLDER,)),
        Change(writes=(Write(HOLDER, {"state": State.FINISHED}),)),
        Change(writes=(Write(HOLDER, {"unique_key": None}),)),
        Change(writes=(Write(HOLDER, {"unique_key": "z"}),)),
    ],
    ids=["deleted", "ended", "without", "renamed"],
)
def test_a_name_that_the_change_sets_free_may_be_taken_by_it(freeing: Change) -> None:
    assert twins(freeing | Change(inserts=(NEW,))) == {}
    assert twins(freeing | Change(inserts=(NEW, NEW))) == {1: 0}


def test_a_write_that_keeps_the_name_does_not_set_it_free() -> None:
    change = Change(writes=(Write(HOLDER, {"state": State.RUNNING}),), inserts=(NEW,))
    assert twins(change) == {0: 7}


def test_a_name_cannot_be_taken_from_a_job_that_is_written_later_and_keeps_it() -> None:
    writes = (Write(job(3), {"unique_key": "x"}), Write(HOLDER, {"meta": "m"}))
    assert twins(Change(writes=writes)) == {-1: 7}


def test_a_reference_is_not_set_free_by_an_end() -> None:
    ending = Write(job(8, ref="x"), {"state": State.CANCELLED})
    assert twins(Change(writes=(ending,), inserts=(job(ref="x"),))) == {0: 8}
