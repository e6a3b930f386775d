"""Retry policies: exact delays, exact limits, and what comes of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.kernel.retry import (
    Again,
    Ask,
    ByError,
    Exponential,
    Failure,
    Fixed,
    GiveUp,
    Linear,
    Listed,
    Never,
    RetryPolicy,
    consult,
    decide,
    failure_of,
)
from stoker.kernel.retry_forms import (
    by_error,
    custom,
    exponential,
    fixed,
    linear,
    listed,
    never,
)
from tests.kernel.retry_samples import (
    ALMOST_ONE,
    BOOM,
    DICE,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    YEAR,
    exponentials,
    linears,
)


def delays(policy: Never | Fixed | Linear | Exponential | Listed, count: int) -> list[int | None]:
    return [policy.delay(failures, 0.0) for failures in range(1, count + 1)]


class RemoteError(Exception):
    pass


class Throttled(RemoteError, OSError):
    pass


# --- Delays and limits -------------------------------------------------------------------------


def test_never_gives_up_after_the_first_failure() -> None:
    assert delays(never(), 1) == [None]


def test_a_fixed_policy_waits_the_same_time_before_each_of_its_retries() -> None:
    assert delays(fixed("10s", limit=3), 4) == [10 * SECOND, 10 * SECOND, 10 * SECOND, None]


def test_a_linear_policy_grows_by_its_step_up_to_its_cap() -> None:
    policy = linear("5s", step="20s", cap="1m", limit=5)
    assert delays(policy, 6) == [5 * SECOND, 25 * SECOND, 45 * SECOND, MINUTE, MINUTE, None]


def test_an_exponential_policy_of_five_gives_up_after_the_sixth_failure() -> None:
    seconds = [1 * SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND, 16 * SECOND]
    assert delays(exponential(5), 6) == [*seconds, None]


def test_an_exponential_policy_grows_by_its_factor_up_to_its_cap() -> None:
    policy = exponential(base="2s", factor=1.5, cap="4s", jitter=0)
    assert delays(policy, 4) == [2 * SECOND, 3 * SECOND, 4 * SECOND, 4 * SECOND]


def test_the_ten_thousandth_exponential_delay_is_the_cap_and_does_not_overflow() -> None:
    assert exponential(factor=2.0, cap="1h").delay(10_000, 0.0) == HOUR
    assert exponential(factor=1e9, cap="1h").delay(10_000, 0.0) == HOUR
    assert exponential(factor=10, cap="1h").delay(10_000, 0.0) == HOUR


def test_jitter_takes_at_most_its_share_of_the_delay() -> None:
    policy = exponential(base="8s", jitter=0.25)
    assert policy.delay(1, 0.0) == 8 * SECOND
    assert policy.delay(1, 0.5) == 7 * SECOND
    assert policy.delay(1, ALMOST_ONE) == 6 * SECOND + 1


def test_a_list_gives_one_retry_for_each_entry() -> None:
    assert delays(listed("1s", "10s", "1m"), 4) == [SECOND, 10 * SECOND, MINUTE, None]


@pytest.mark.parametrize(
    "policy", [fixed("1s", limit=0), linear("1s", step="1s", limit=0), exponential(0)]
)
def test_a_limit_of_zero_allows_no_retry(policy: Fixed | Linear | Exponential) -> None:
    assert policy.delay(1, 0.0) is None


@pytest.mark.parametrize("policy", [fixed("1h"), linear("1h", step="1s"), exponential(base="1h")])
def test_without_a_limit_the_retries_never_end(policy: Fixed | Linear | Exponential) -> None:
    assert policy.delay(1_000_000, 0.0) == HOUR


@given(policy=exponentials(longest=YEAR), failures=st.integers(1, 20_000), dice=DICE)
def test_an_exponential_delay_stays_between_its_jittered_floor_and_its_cap(
    policy: Exponential, failures: int, dice: float
) -> None:
    endless = msgspec.structs.replace(policy, limit=None)
    full, thrown = endless.delay(failures, 0.0), endless.delay(failures, dice)
    assert full is not None
    assert thrown is not None
    assert 0 <= thrown <= full
    assert policy.base <= full <= policy.cap
    assert thrown >= full - full * policy.jitter - 1


@given(policy=exponentials(longest=YEAR) | linears(), failures=st.integers(1, 1000), dice=DICE)
def test_a_growing_policy_never_waits_shorter_after_one_more_failure(
    policy: Exponential | Linear, failures: int, dice: float
) -> None:
    endless = msgspec.structs.replace(policy, limit=None)
    earlier, later = endless.delay(failures, dice), endless.delay(failures + 1, dice)
    assert earlier is not None
    assert later is not None
    assert earlier <= later


@given(limit=st.integers(0, 50), failures=st.integers(1, 100))
def test_every_counted_policy_gives_up_exactly_after_its_limit(limit: int, failures: int) -> None:
    for policy in (
        fixed("1s", limit=limit),
        linear("1s", step="1s", limit=limit),
        exponential(limit),
        listed("1s", *["1s"] * (limit - 1)) if limit else never(),
    ):
        assert (policy.delay(failures, 0.0) is None) is (failures > limit)


# --- By error ----------------------------------------------------------------------------------


def chosen_for(name: str, *kinds: str) -> bool:
    return ByError(((name, Fixed(0, None)),), Never()).chosen(Failure(kinds, "")) == Fixed(0, None)


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("Timeout", "requests.exceptions.Timeout", True),
        ("requests.exceptions.Timeout", "requests.exceptions.Timeout", True),
        ("requests.Timeout", "requests.exceptions.Timeout", True),
        ("requests.Timeout", "requests_mock.Timeout", False),
        ("request.Timeout", "requests.Timeout", False),
        ("exceptions.Timeout", "requests.exceptions.Timeout", False),
        ("Timeout", "requests.exceptions.ConnectTimeout", False),
        ("timeout", "requests.exceptions.Timeout", False),
        ("Timeout", "Timeout", True),
        ("requests.Timeout", "Timeout", False),
    ],
)
def test_an_error_name_matches_by_class_and_package(name: str, kind: str, expected: bool) -> None:
    assert chosen_for(name, kind) is expected


def test_an_error_name_matches_any_type_the_error_derives_from() -> None:
    kinds = failure_of(Throttled()).kinds
    assert chosen_for("Throttled", *kinds) is True
    assert chosen_for("RemoteError", *kinds) is True
    assert chosen_for("builtins.OSError", *kinds) is True
    assert chosen_for("Exception", *kinds) is True
    assert chosen_for("ValueError", *kinds) is False


def test_the_first_matching_rule_decides_even_if_a_later_one_is_more_specific() -> None:
    policy = by_error(
        {OSError: fixed("1s"), Throttled: fixed("2s"), ValueError: never()},
        otherwise=fixed("3s"),
    )
    assert policy.chosen(failure_of(Throttled())) == fixed("1s")
    assert policy.chosen(failure_of(ValueError())) == never()
    assert policy.chosen(failure_of(KeyError())) == fixed("3s")


def test_an_error_class_stands_for_its_qualified_name() -> None:
    policy = by_error({ValueError: never(), "a.Timeout": fixed("5s")}, otherwise=never())
    assert [name for name, _ in policy.rules] == ["builtins.ValueError", "a.Timeout"]


# --- Failures ----------------------------------------------------------------------------------


def test_a_failure_names_the_types_of_its_error_from_the_most_specific_on() -> None:
    here = __name__
    assert failure_of(Throttled("slow down")) == Failure(
        (
            f"{here}.Throttled",
            f"{here}.RemoteError",
            "builtins.OSError",
            "builtins.Exception",
            "builtins.BaseException",
        ),
        "slow down",
        timeout=False,
        lost=False,
    )


def test_an_error_that_cannot_be_shown_still_makes_a_failure() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert failure_of(Mute()).message == "an error that cannot be shown"


def test_a_message_with_undecodable_bytes_is_made_storable() -> None:
    failure = failure_of(OSError("no file na\udce9"))
    assert failure.message == "no file na\\udce9"
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure


# --- Deciding ----------------------------------------------------------------------------------


def decided(policy: RetryPolicy, failures: int = 1, failure: Failure = BOOM) -> object:
    return decide(policy, failures=failures, failure=failure, now=NOW, dice=0.5)


def test_a_policy_decides_when_the_job_runs_again() -> None:
    assert decided(fixed("10s", limit=1)) == Again(NOW + 10 * SECOND)
    assert decided(exponential(5, base="8s", jitter=0.5)) == Again(NOW + 6 * SECOND)


def test_a_spent_policy_gives_the_job_up() -> None:
    assert decided(fixed("10s", limit=1), failures=2) == GiveUp()
    assert decided(never()) == GiveUp()


def test_a_failure_that_was_not_counted_is_treated_as_the_first() -> None:
    assert decided(linear("5s", step="10s"), failures=0) == Again(NOW + 5 * SECOND)


def test_a_custom_policy_asks_for_the_code_that_is_not_here() -> None:
    assert decided(custom("mail.retry")) == Ask("mail.retry")


def test_a_choice_by_error_may_be_nested_and_may_end_at_a_custom_policy() -> None:
    inner = by_error({"ValueError": custom("look")}, otherwise=never())
    policy = by_error({Exception: inner}, otherwise=fixed("1s"))
    assert decided(policy) == Ask("look")
    assert decided(policy, failure=failure_of(KeyError())) == GiveUp()
    assert decided(policy, failure=failure_of(SystemExit())) == Again(NOW + SECOND)


# --- Handlers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (None, GiveUp()),
        (False, GiveUp()),
        (True, Again(NOW)),
        (0, Again(NOW)),
        (3, Again(NOW + 3 * SECOND)),
        (0.25, Again(NOW + SECOND // 4)),
        (timedelta(minutes=1, microseconds=1), Again(NOW + MINUTE + 1)),
        (Again(5, b"other", -1), Again(5, b"other", -1)),
        (GiveUp("hopeless"), GiveUp("hopeless")),
    ],
)
def test_what_a_handler_returns_becomes_a_verdict(answer: object, verdict: object) -> None:
    assert consult(lambda job, failure: answer, object(), BOOM, NOW) == verdict


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("10s", "returned '10s', which is no verdict"),
        ([1], "returned [1], which is no verdict"),
        (Ask("else"), "returned Ask(name='else'), which is no verdict"),
        (-1, "returned a bad delay: the duration -1 is negative"),
        (-0.5, "returned a bad delay: the duration -0.5 is negative"),
        (timedelta(seconds=-1), "returned a bad delay: the duration"),
        (float("nan"), "returned a bad delay: cannot read the duration nan"),
        (float("inf"), "returned a bad delay: cannot read the duration inf"),
        (10**30, "returned a bad delay: the duration 1000000000000000000000000000000 is longer"),
    ],
)
def test_a_bad_return_gives_up_and_is_named_beside_the_failure(answer: object, named: str) -> None:
    verdict = consult(lambda job, failure: answer, object(), BOOM, NOW)
    assert isinstance(verdict, GiveUp)
    assert verdict.reason is not None
    assert verdict.reason.startswith(f"boom (given up, for the retry handler {named}")


def test_a_handler_that_raises_gives_up_and_both_errors_are_kept() -> None:
    def broken(job: object, failure: Failure) -> object:
        raise KeyError("tenant")

    assert consult(broken, object(), BOOM, NOW) == GiveUp(
        "boom (given up, for the retry handler raised KeyError: 'tenant')"
    )


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"at": 10**30}, "lies outside the years 2 to 9998"),
        ({"at": 1.5}, "lies outside the years 2 to 9998"),
        ({"at": NOW, "rank": 2**63}, "rank must be a whole number from"),
    ],
)
def test_a_handler_cannot_say_when_or_where_no_job_can_be(said: Any, fault: str) -> None:
    verdict = consult(lambda job, failure: Again(**said), object(), BOOM, NOW)
    assert isinstance(verdict, GiveUp)
    assert fault in str(verdict.reason)


def test_a_handler_does_not_swallow_a_request_to_stop() -> None:
    def stopped(job: object, failure: Failure) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        consult(stopped, object(), BOOM, NOW)


def test_a_handler_is_given_the_job_and_the_failure() -> None:
    seen: list[object] = []

    def watchful(job: object, failure: Failure) -> None:
        seen.extend((job, failure))

    assert consult(watchful, "the job", BOOM, NOW) == GiveUp()
    assert seen == ["the job", BOOM]
