"""What may be said about a job, and what is refused in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.errors import BadInput
from stoker.kernel.facts import HEAVIEST, check, check_new
from stoker.kernel.job import Format, Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.ranges import HIGHEST_RANK
from stoker.kernel.zones import END, FIRST
from tests.kernel.samples import job_in

GOOD: list[dict[str, Any]] = [
    {},
    {"due_at": -1},
    {"payload": b"", "format": Format.BYTES},
    {"rank": HIGHEST_RANK, "weight": HEAVIEST, "due_at": END - 1},
    {"rank": -HIGHEST_RANK, "weight": 0, "due_at": FIRST},
    {"queue": "☃", "name": "", "key": "ä ☃", "unique_key": "ü", "ref": "\U0001f600", "meta": "\n"},
    {"key": "k", "unique_key": "u", "ref": "r", "meta": "m"},
    {"policy": Policy(timeout=5)},
    {"created_at": 7, "scheduled_at": 8},
]
BAD: list[tuple[dict[str, Any], str]] = [
    ({"payload": "text"}, "payload must be bytes, not str"),
    ({"payload": None}, "payload must be bytes, not NoneType"),
    ({"format": "json"}, "format must be Format, not str"),
    ({"format": 0}, "format must be Format, not int"),
    ({"policy": None}, "policy must be Policy, not NoneType"),
    ({"rank": HIGHEST_RANK + 1}, "rank must be a whole number from -4,611"),
    ({"rank": -(2**63)}, "rank must be a whole number"),
    ({"rank": 1.5}, "rank must be a whole number"),
    ({"rank": True}, "rank must be a whole number"),
    ({"weight": -1}, "weight must be a whole number from 0 to 1,000,000,000,000, not -1"),
    ({"weight": HEAVIEST + 1}, "weight must be a whole number"),
    ({"weight": 0.5}, "weight must be a whole number"),
    ({"due_at": END}, "due_at must be a whole number"),
    ({"due_at": FIRST - 1}, "due_at must be a whole number"),
    ({"due_at": 1.0}, "due_at must be a whole number"),
    ({"queue": None}, "queue must be text, not NoneType"),
    ({"queue": b"q"}, "queue must be text, not bytes"),
    ({"name": None}, "name must be text, not NoneType"),
    *(({text: 5}, f"{text} must be text, not int") for text in ("key", "unique_key", "ref")),
    *(({text: ""}, f"{text} cannot be empty") for text in ("queue", "key", "unique_key", "ref")),
    *(
        ({text: "\ud800"}, f"{text} holds half a character")
        for text in ("queue", "name", "key", "unique_key", "ref", "meta")
    ),
]


def new(**facts: Any) -> Job:
    return Job(**({"queue": "q"} | facts))


@pytest.mark.parametrize("facts", GOOD, ids=range(len(GOOD)))
def test_a_new_job_may_say_anything_a_store_can_keep(facts: dict[str, Any]) -> None:
    check_new(new(**facts))


@pytest.mark.parametrize("facts", GOOD[1:6])
def test_so_may_an_edit(facts: dict[str, Any]) -> None:
    check(facts)


@pytest.mark.parametrize(("facts", "refusal"), BAD, ids=range(len(BAD)))
def test_what_no_store_can_keep_is_refused(facts: dict[str, Any], refusal: str) -> None:
    with pytest.raises(BadInput, match=refusal):
        check_new(new(**facts))
    with pytest.raises(BadInput, match=refusal):
        check(facts)


@pytest.mark.parametrize("state", State)
def test_a_job_that_has_lived_cannot_be_enqueued_as_a_new_one(state: State) -> None:
    with pytest.raises(BadInput, match=r"a new job cannot have .*\bid\b"):
        check_new(job_in(state))


LIFE = {
    "id": 5,
    "state": State.RUNNING,
    "parent_id": 2,
    "open_children": 1,
    "waits_for": "tick",
    "attempt": 1,
    "revision": 3,
    "token": 7,
    "session": 7,
    "until": 9,
    "started_at": 9,
    "cancel_requested": True,
    "result": b"",
    "error": "",
}


@pytest.mark.parametrize("fact", LIFE)
def test_no_fact_of_a_life_can_be_given_to_a_new_job(fact: str) -> None:
    with pytest.raises(BadInput, match=f"a new job cannot have {fact}: say only what"):
        check_new(new(**{fact: LIFE[fact]}))


def test_every_fact_of_a_job_is_either_asked_for_or_part_of_its_life() -> None:
    """A field added to Job has to be checked or refused: this finds one that is neither."""
    blank = new()
    for field in msgspec.structs.fields(Job):
        odd = msgspec.structs.replace(blank, **{field.name: object()})
        if field.name in ("created_at", "scheduled_at"):
            continue
        with pytest.raises(BadInput, match=field.name):
            check_new(odd)
