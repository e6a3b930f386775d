"""Policies: data through and through, and checked when they are made."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.errors import BadInput
from stoker.kernel.job import Job
from stoker.kernel.policy import DAY, PLAIN, OnLost, Policy
from stoker.kernel.retry import Never
from stoker.kernel.retry_forms import by_error, custom, exponential, fixed, linear, listed
from stoker.kernel.window import parse_windows

POLICIES = [
    PLAIN,
    *(Policy(on_lost=each) for each in OnLost),
    Policy(timeout=None, crash_limit=None),
    Policy(retry=fixed("10s", limit=3)),
    Policy(retry=linear("5s", step="5s", limit=None)),
    Policy(retry=exponential(5, jitter=0.25)),
    Policy(retry=listed("1s", "2s")),
    Policy(retry=custom("name")),
    Policy(retry=by_error({"A": by_error({"B": fixed(1)}, otherwise=Never())}, otherwise=Never())),
    Policy(repeat="cron 0 5 * * mon-fri in Europe/Berlin; gap=skip"),
    Policy(windows=parse_windows("mon-fri 05:00-07:00 in Europe/Berlin except 2036-12-25")),
]


def test_a_job_nobody_said_anything_about_is_treated_plainly() -> None:
    assert Job("q").policy is PLAIN
    assert Policy(DAY, OnLost.REQUEUE, 3, Never(), None, None) == PLAIN


@pytest.mark.parametrize("policy", POLICIES, ids=range(len(POLICIES)))
def test_a_policy_survives_being_written_down(policy: Policy) -> None:
    text = msgspec.json.encode(policy)
    assert msgspec.json.decode(text, type=Policy) == policy
    assert (text == b"{}") == (policy == PLAIN)


def test_equal_policies_are_one_in_a_dictionary_and_different_ones_are_not() -> None:
    again = [msgspec.json.decode(msgspec.json.encode(each), type=Policy) for each in POLICIES]
    assert len({*POLICIES, *again}) == len({*POLICIES}) == len(POLICIES) - 1  # REQUEUE is plain


@pytest.mark.parametrize("timeout", [0, -1, 2**63 - 1, 10**30, 1.5, True, float("nan")])
def test_a_time_limit_of_nothing_or_of_ages_is_refused(timeout: Any) -> None:
    with pytest.raises(BadInput, match="timeout must be more than 0 and at most 1,000 years"):
        Policy(timeout=timeout)


@pytest.mark.parametrize("limit", [0, -1, 2**31, 10**30, 1.5, True, float("inf")])
def test_a_crash_limit_out_of_range_is_refused(limit: Any) -> None:
    with pytest.raises(
        BadInput,
        match=r"crash_limit \(None: no limit\) must be a whole number from 1 to 2,147,483,647",
    ):
        Policy(crash_limit=limit)


def test_a_repeat_that_cannot_be_read_is_refused_at_once() -> None:
    with pytest.raises(BadInput, match='cannot read the repeat "SOMETIMES"'):
        Policy(repeat="sometimes")


def test_a_policy_is_checked_also_when_it_is_read() -> None:
    with pytest.raises(msgspec.ValidationError, match="timeout must be more than 0"):
        msgspec.json.decode(b'{"timeout": 0}', type=Policy)


@pytest.mark.parametrize(
    ("on_lost", "failures"),
    [(OnLost.REQUEUE, 3), (OnLost.FAIL, 3), (OnLost.STAY, 3), (OnLost.RETRY, 5)],
)
def test_lost_tries_count_as_failures_only_where_a_loss_is_judged_as_one(
    on_lost: OnLost, failures: int
) -> None:
    job = Job("q", attempt=5, crashes=2, policy=Policy(on_lost=on_lost))
    assert job.failures == failures
