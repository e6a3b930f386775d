"""Chains, groups and the places of parents: each rule's Change, to the letter."""

from __future__ import annotations

import msgspec
import pytest

from stoker.errors import BadInput, IllegalMove
from stoker.kernel import control, family, flow, pacing, rules
from stoker.kernel.change import NOTHING, Change, Copies, Write
from stoker.kernel.flow import CHAIN, GROUP, Step, step_of
from stoker.kernel.job import Job, State
from stoker.kernel.pacing import Debounce
from stoker.kernel.policy import Policy
from tests.kernel.samples import MINUTE, NOW, SECOND, job_in

STEPS = [step_of(Job("a", "first", b"1")), step_of(Job("b", "then", b'{"x":1}'), takes="y")]
PAYLOAD = flow.chain(STEPS).payload


def chain(**facts: object) -> Job:
    said = {"name": CHAIN, "payload": PAYLOAD, "waits_for": "children", "open_children": 0}
    return job_in(State.WAITING, **{**said, **facts})


def child(**facts: object) -> Job:
    return job_in(State.FINISHED, id=6, parent_id=5, **facts)


# -- chains --------------------------------------------------------------------------------


def test_a_chain_says_no_more_of_its_steps_than_is_unusual() -> None:
    assert msgspec.json.decode(PAYLOAD) == [
        {"queue": "a", "name": "first", "payload": "MQ=="},
        {"queue": "b", "name": "then", "payload": "eyJ4IjoxfQ==", "takes": "y"},
    ]


def test_the_next_step_is_made_with_the_result_and_counted() -> None:
    before = chain(finished_children=1)
    change = flow.advance(before, child(result=b"[2]"), now=NOW)
    made = Job(
        *("b", "then", b'{"x":1,"y":[2]}'),
        due_at=NOW,
        created_at=NOW,
        scheduled_at=NOW,
        parent_id=5,
    )
    assert change == Change(inserts=(made,), writes=(Write(before, {"open_children": 1}),))


def test_a_chain_that_still_waits_stays_as_it_is() -> None:
    assert flow.advance(chain(open_children=1), None, now=NOW) is NOTHING
    with pytest.raises(IllegalMove):
        flow.advance(job_in(State.CANCELLED, name=CHAIN), None, now=NOW)


def test_the_end_of_a_chain_has_the_result_of_its_last_step() -> None:
    (write,) = flow.advance(chain(finished_children=2), child(result=b"7"), now=NOW).writes
    facts = (write.set["state"], write.set["result"], write.set["error"], write.set["waits_for"])
    assert facts == (State.FINISHED, b"7", None, None)


def test_a_result_that_is_needed_and_not_kept_fails_the_chain_by_name() -> None:
    with pytest.raises(BadInput, match="nothing is kept of the step before"):
        flow.advance(chain(finished_children=1), None, now=NOW)
    (write,) = flow.give_up(chain(finished_children=1), "so it is", now=NOW).writes
    assert write.set["state"] is State.FAILED
    assert write.set["error"] == "step 2 cannot be taken in: so it is"


def test_what_was_made_unreadable_is_bad_input_and_nothing_worse() -> None:
    broken = msgspec.json.encode([STEPS[0], Step("b", payload=b"[]", takes="y")])
    with pytest.raises(BadInput, match="no object that could take a result"):
        flow.advance(chain(finished_children=1, payload=broken), child(result=b"1"), now=NOW)
    with pytest.raises(BadInput, match="steps of the chain cannot be read"):
        flow.advance(chain(payload=b"{}"), None, now=NOW)


def test_a_chain_is_revived_to_wait_with_its_failures_forgotten() -> None:
    failed = job_in(State.FAILED, name=CHAIN, finished_children=1, failed_children=1)
    (write,) = control.revive(failed, now=NOW).writes
    facts = (write.set["state"], write.set["waits_for"], write.set["failed_children"])
    assert facts == (State.WAITING, "children", 0)


def test_a_group_is_finished_when_all_have_ended_however_they_ended() -> None:
    counts = {"finished_children": 2, "failed_children": 1, "cancelled_children": 3}
    (write,) = flow.advance(chain(name=GROUP, **counts), None, now=NOW).writes
    assert write.set["state"] is State.FINISHED
    said = {"finished": 2, "failed": 1, "cancelled": 3, "pending": 0}
    assert msgspec.json.decode(write.set["result"]) == said


# -- a parent and its children at once -----------------------------------------------------


def test_a_place_burdens_nobody_is_answered_by_nobody_and_leaves_no_trace() -> None:
    parent = Job("q", "sum", b"1", weight=5000, policy=Policy(timeout=MINUTE))
    place = msgspec.structs.replace(family.reserve(parent, until=NOW), id=5)
    assert (place.state, place.waits_for, place.weight) == (State.WAITING, "reply:", 0)
    assert rules.expire(place, now=NOW, dice=0.0).deletes == (place,)


@pytest.mark.parametrize("as_copies", [False, True])
def test_the_children_come_with_the_step_that_makes_the_place_a_parent(as_copies: bool) -> None:
    parent = Job("q", "sum", weight=5000, policy=Policy(timeout=MINUTE))
    place = msgspec.structs.replace(family.reserve(parent, until=NOW), id=5)
    jobs = [Job("c", payload=b"1"), Job("c", payload=b"2")]
    change = family.gather(place, parent, Copies(jobs[0], [b"1", b"2"]) if as_copies else jobs)
    kin = [msgspec.structs.replace(job, parent_id=5) for job in jobs]
    assert ([*change.inserts], isinstance(change.inserts, Copies)) == (kin, as_copies)
    facts: dict[str, object] = {"waits_for": "children", "until": None, "open_children": 2}
    facts |= {"weight": 5000, "policy": parent.policy}
    assert change.writes == (Write(place, facts),)


# -- debounce ------------------------------------------------------------------------------

CALM = Debounce(5 * SECOND, 12 * SECOND)
NEW = Job("q", payload=b"new", unique_key="u")


def test_a_job_that_has_not_begun_is_put_off_up_to_the_limit() -> None:
    for age, due_at in ((2, NOW + 5 * SECOND), (9, NOW + 3 * SECOND), (20, NOW - 8 * SECOND)):
        there = job_in(State.QUEUED, started_at=None, created_at=NOW - age * SECOND)
        (write,) = pacing.debounce(NEW, there, CALM, now=NOW).writes
        assert (write.set["payload"], write.set["due_at"]) == (b"new", due_at)


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING, State.WAITING])
def test_a_job_that_has_begun_gives_up_its_name_and_nothing_else(state: State) -> None:
    there = job_in(state, unique_key="u", started_at=NOW - SECOND)
    change = pacing.debounce(NEW, there, CALM, now=NOW)
    assert change.writes == (Write(there, {"unique_key": None}),)
    (made,) = change.inserts
    assert (made.unique_key, made.payload, made.due_at) == ("u", b"new", NOW + 5 * SECOND)
