"""The rules of what does not go straight on: failing, giving back, waiting."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.errors import BadInput, IllegalMove
from stoker.kernel import rules
from stoker.kernel.answers import Early
from stoker.kernel.change import Change, Note, NoteWrite, Tally, Write
from stoker.kernel.job import State
from stoker.kernel.retry import Again, Ask, GiveUp
from tests.kernel.samples import (
    DAY,
    HOURLY,
    MINUTE,
    NEXT_ROUND,
    NO_LEASE,
    NOW,
    STARTED,
    ending,
    fail,
    is_over,
    job_in,
    wrote,
)

# -- fail ----------------------------------------------------------------------------------


def test_a_job_tried_again_is_due_when_the_verdict_says() -> None:
    job = job_in(State.RUNNING, undecided=True)
    assert wrote(fail(job, Again(NOW + 5)), job) == {
        **NO_LEASE,
        "state": State.QUEUED,
        "due_at": NOW + 5,
        "undecided": False,
        "error": "broken",
    }


def test_a_verdict_may_bring_a_payload_and_a_rank() -> None:
    job = job_in(State.RUNNING)
    fields = wrote(fail(job, Again(NOW, b"p", 0)), job)
    assert (fields["payload"], fields["rank"]) == (b"p", 0)


def test_a_job_whose_handler_must_be_asked_continues_its_try() -> None:
    job = job_in(State.RUNNING, attempt=3)
    assert wrote(fail(job, Ask("h")), job) == {
        **NO_LEASE,
        "state": State.QUEUED,
        "undecided": True,
        "attempt": 2,
        "error": "broken",
    }


@pytest.mark.parametrize(
    ("verdict", "error"), [(GiveUp(), "broken"), (GiveUp("enough"), "enough")], ids=["", "reason"]
)
def test_a_job_given_up_fails_and_tells_its_parent(verdict: GiveUp, error: str) -> None:
    job = job_in(State.RUNNING, parent_id=2)
    (write,) = fail(job, verdict).writes
    assert write == Write(job, ending(State.FAILED, 30 * DAY, error=error))
    assert fail(job, verdict).tallies == (Tally(2, State.FAILED),)


def test_a_repeating_job_given_up_loses_only_this_run() -> None:
    job = job_in(State.RUNNING, policy=HOURLY, attempt=2)
    assert wrote(fail(job, GiveUp()), job) == {**NEXT_ROUND, "error": "broken"}
    ended = wrote(fail(job, GiveUp(), repeat=False), job)
    assert ended == ending(State.FAILED, 30 * DAY, error="broken")


@pytest.mark.parametrize("verdict", [Again(NOW), Ask("h"), GiveUp("x")])
def test_a_job_to_be_cancelled_that_fails_is_cancelled(verdict: Again | Ask | GiveUp) -> None:
    job = job_in(State.RUNNING, cancel_requested=True, policy=HOURLY)
    assert wrote(fail(job, verdict), job) == ending(State.CANCELLED, DAY, error="broken")


# -- release -------------------------------------------------------------------------------


def test_a_job_given_back_has_not_been_tried() -> None:
    job = job_in(State.RUNNING, attempt=3, session=4)
    change = rules.release(job, now=NOW)
    assert wrote(change, job) == {**NO_LEASE, "state": State.QUEUED, "attempt": 2}


def test_a_job_given_back_may_be_put_off_and_changed() -> None:
    job = job_in(State.RUNNING)
    fields = wrote(rules.release(job, now=NOW, due_at=NOW + 9, payload=b"p", error="why"), job)
    assert (fields["due_at"], fields["payload"], fields["error"]) == (NOW + 9, b"p", "why")


def test_a_job_to_be_cancelled_that_is_given_back_is_cancelled() -> None:
    job = job_in(State.RUNNING, cancel_requested=True)
    assert wrote(rules.release(job, now=NOW), job) == ending(State.CANCELLED, DAY)


# -- wait and wake -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timeout", "until"), [(None, STARTED + DAY), (MINUTE, NOW + MINUTE), (2 * DAY, STARTED + DAY)]
)
def test_a_job_that_waits_gives_up_its_lease_and_expects_no_earlier_answer(
    timeout: int | None, until: int
) -> None:
    job = job_in(State.RUNNING, reply=b"old")
    change = rules.wait(job, now=NOW, key="k", timeout=timeout)
    news = {**NO_LEASE, "state": State.WAITING, "until": until, "waits_for": "reply:k"}
    assert change == Change(
        writes=(Write(job, {**news, "reply": None}),),
        notes=(NoteWrite("reply:k", None, expect=0),),
    )


def test_an_answer_that_was_there_before_is_taken_with_its_note() -> None:
    job = job_in(State.RUNNING, attempt=2)
    early = Early(Note("reply:k", b"early", revision=6))
    change = rules.wait(job, now=NOW, key="k", early=early)
    news = {**NO_LEASE, "state": State.QUEUED, "attempt": 1, "reply": b"early"}
    assert change == Change(
        writes=(Write(job, news),),
        notes=(NoteWrite("reply:k", None, expect=6), is_over(job, answered=True)),
    )


def test_a_job_to_be_cancelled_does_not_wait() -> None:
    job = job_in(State.RUNNING, cancel_requested=True)
    assert wrote(rules.wait(job, now=NOW, key="k"), job) == ending(State.CANCELLED, DAY)


def test_a_wait_needs_a_key() -> None:
    with pytest.raises(BadInput, match="cannot be empty"):
        rules.wait(job_in(State.RUNNING), now=NOW, key="")


@pytest.mark.parametrize("reply", [None, b"", b"r"])
def test_a_job_that_wakes_continues_the_try_it_was_in(reply: bytes | None) -> None:
    job = job_in(State.WAITING, attempt=2, until=NOW)
    expected: dict[str, Any]
    expected = {"state": State.QUEUED, "waits_for": None, "until": None, "attempt": 1}
    if reply is not None:
        expected["reply"] = reply
    assert wrote(rules.wake(job, reply=reply), job) == expected


def test_a_job_that_never_ran_has_no_try_to_continue() -> None:
    job = job_in(State.WAITING, waits_for="parent", started_at=None, attempt=0)
    expected = {"state": State.QUEUED, "waits_for": None, "until": None}
    assert wrote(rules.wake(job), job) == expected


def test_a_schedule_is_never_woken() -> None:
    job = job_in(State.WAITING, waits_for="tick")
    with pytest.raises(IllegalMove, match="never runs itself"):
        rules.wake(job)
