"""The rules of loss: out of time, out of touch, crashed; what each asks for, to the letter."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.kernel import rules
from stoker.kernel.change import Change
from stoker.kernel.job import Job, State
from stoker.kernel.policy import OnLost, Policy
from stoker.kernel.retry_forms import custom, exponential, fixed
from tests.kernel.samples import DAY, NO_LEASE, NOW, SECOND, ending, is_over, job_in, wrote


def expire(job: Job, at: int = NOW) -> Change:
    return rules.expire(job, now=at, dice=0.0)


def test_a_lost_job_keeps_its_place_and_counts_a_crash() -> None:
    job = job_in(State.RUNNING, session=4, crashes=1, attempt=2)
    assert wrote(expire(job), job) == {
        **NO_LEASE,
        "state": State.QUEUED,
        "crashes": 2,
        "error": "worker lost in try 2: session 4 is gone",
    }


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({}, "its deadline passed"),
        ({"session": 4}, "session 4 is gone"),
        ({"session": 4, "until": NOW}, "its deadline passed"),
    ],
)
def test_a_lost_job_tells_what_ended_its_lease(facts: dict[str, Any], why: str) -> None:
    job = job_in(State.RUNNING, **facts)
    assert wrote(expire(job), job)["error"] == f"worker lost in try 1: {why}"


@pytest.mark.parametrize(
    ("on_lost", "state"),
    [
        (OnLost.REQUEUE, State.QUEUED),
        (OnLost.RETRY, State.FAILED),
        (OnLost.FAIL, State.FAILED),
        (OnLost.STAY, State.FAILED),
    ],
)
def test_a_crash_that_was_seen_goes_by_the_policy_and_brings_its_own_evidence(
    on_lost: OnLost, state: State
) -> None:
    job = job_in(State.RUNNING, policy=Policy(on_lost=on_lost))
    fields = wrote(rules.lose(job, now=NOW, dice=0.0, evidence="code 139"), job)
    assert (fields["state"], fields["crashes"], fields["error"]) == (state, 1, "code 139")


def test_the_last_crash_a_job_may_have_parks_it_with_the_evidence() -> None:
    job = job_in(State.RUNNING, crashes=2, attempt=3, policy=Policy(crash_limit=3))
    error = "parked after losing 3 workers; worker lost in try 3: its deadline passed"
    expected = ending(State.FAILED, 30 * DAY, crashes=3, error=error)
    assert wrote(expire(job), job) == expected


def test_a_repeating_job_is_parked_too() -> None:
    policy = Policy(repeat="FINISHED, +1 HOUR", crash_limit=1)
    job = job_in(State.RUNNING, policy=policy)
    assert wrote(expire(job), job)["state"] is State.FAILED


def test_a_job_that_must_not_run_twice_fails_when_it_is_lost() -> None:
    job = job_in(State.RUNNING, policy=Policy(on_lost=OnLost.FAIL))
    error = "worker lost in try 1: its deadline passed"
    assert wrote(expire(job), job) == ending(State.FAILED, 30 * DAY, crashes=1, error=error)


def test_a_loss_may_be_judged_by_the_retry_policy() -> None:
    policy = Policy(on_lost=OnLost.RETRY, retry=fixed("9s", limit=1))
    job = job_in(State.RUNNING, policy=policy)
    fields = wrote(expire(job), job)
    assert (fields["state"], fields["due_at"]) == (State.QUEUED, NOW + 9 * SECOND)
    again = job_in(State.RUNNING, policy=policy, attempt=2, crashes=1)
    assert wrote(expire(again), again)["state"] is State.FAILED


def test_a_try_past_its_limit_has_failed_and_not_crashed() -> None:
    job = job_in(State.RUNNING, policy=Policy(timeout=10 * SECOND, retry=fixed("1s")), session=4)
    assert wrote(expire(job), job) == {
        **NO_LEASE,
        "state": State.QUEUED,
        "due_at": NOW + SECOND,
        "undecided": False,
        "error": "ran longer than its limit of 10 s",
    }
    before = wrote(expire(job, NOW - 1), job)
    assert before["crashes"] == 1


def test_a_reply_that_did_not_come_is_a_failure_of_the_try_that_asked() -> None:
    job = job_in(State.WAITING)
    error = "no reply for 'k' came in time"
    expected = ending(State.FAILED, 30 * DAY, error=error, waits_for=None)
    assert wrote(expire(job), job, is_over(job)) == expected


def test_of_a_question_that_is_asked_again_later_one_knows_until_after_that() -> None:
    job = job_in(State.WAITING, policy=Policy(retry=fixed("1h")))
    assert expire(job).notes == (is_over(job, since=NOW + 3600 * SECOND),)


def test_a_timeout_with_a_handler_waits_for_the_handler() -> None:
    job = job_in(State.WAITING, policy=Policy(retry=custom("h")))
    fields = wrote(expire(job), job, is_over(job))
    assert (fields["state"], fields["undecided"], fields["waits_for"]) == (
        State.QUEUED,
        True,
        None,
    )


@pytest.mark.parametrize("on_lost", [OnLost.REQUEUE, OnLost.RETRY, OnLost.FAIL])
def test_a_lost_job_that_was_to_be_cancelled_is(on_lost: OnLost) -> None:
    policy = Policy(on_lost=on_lost, retry=fixed(0))
    job = job_in(State.RUNNING, cancel_requested=True, policy=policy)
    assert wrote(expire(job), job)["state"] is State.CANCELLED


@pytest.mark.parametrize(("dice", "delay"), [(0.0, 8), (0.5, 6), (0.75, 5)])
def test_the_dice_that_were_thrown_decide_how_much_jitter_takes_away(
    dice: float, delay: int
) -> None:
    retry = exponential(base="8s", jitter=0.5)
    job = job_in(State.RUNNING, policy=Policy(retry=retry, timeout=SECOND))
    change = rules.expire(job, now=NOW, dice=dice)
    assert wrote(change, job)["due_at"] == NOW + delay * SECOND
