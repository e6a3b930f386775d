"""Retry policies as JSON and as text: the same after every round trip, and what cannot be one."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings

from stoker.errors import BadInput
from stoker.kernel.duration import LONGEST
from stoker.kernel.retry import (
    Fixed,
    Linear,
    Listed,
    RetryPolicy,
)
from stoker.kernel.retry_forms import (
    by_error,
    custom,
    exponential,
    fixed,
    linear,
    listed,
    never,
    parse_retry,
    retry_text,
)
from tests.kernel.retry_samples import (
    HOUR,
    POLICIES,
    SECOND,
    WORDED,
)

# --- JSON and text -----------------------------------------------------------------------------


@settings(deadline=None)
@given(policy=POLICIES)
def test_every_policy_survives_json(policy: RetryPolicy) -> None:
    assert msgspec.json.decode(msgspec.json.encode(policy), type=RetryPolicy) == policy


@pytest.mark.parametrize(
    ("policy", "json"),
    [
        (never(), {"kind": "never"}),
        (fixed("1s", limit=3), {"kind": "fixed", "every": SECOND, "limit": 3}),
        (listed("1s"), {"kind": "listed", "delays": [SECOND]}),
        (custom("look"), {"kind": "custom", "name": "look"}),
        (
            by_error({"E": never()}, otherwise=never()),
            {
                "kind": "by_error",
                "rules": [["E", {"kind": "never"}]],
                "otherwise": {"kind": "never"},
            },
        ),
    ],
)
def test_the_json_of_a_policy_tells_its_kind(policy: RetryPolicy, json: object) -> None:
    assert msgspec.json.decode(msgspec.json.encode(policy)) == json


def test_json_that_holds_an_impossible_policy_is_refused() -> None:
    with pytest.raises(
        msgspec.ValidationError, match=r"the limit .* must be a whole number from 0"
    ):
        msgspec.json.decode(b'{"kind":"fixed","every":1,"limit":-1}', type=RetryPolicy)


@given(policy=WORDED)
def test_every_policy_but_a_choice_by_error_survives_its_text(policy: RetryPolicy) -> None:
    text = retry_text(policy)
    assert parse_retry(text) == policy
    assert retry_text(parse_retry(text)) == text


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (never(), "never"),
        (fixed("10s", limit=3), "fixed 10s x3"),
        (fixed("90s"), "fixed 1m30s"),
        (linear("5s", step="5s", cap="1m", limit=10), "linear 5s +5s cap 1m x10"),
        (exponential(5), "exponential 1s *2 cap 1h jitter 0.5 x5"),
        (exponential(factor=1.5, jitter=0), "exponential 1s *1.5 cap 1h jitter 0"),
        (listed("1s", "10s", "1m"), "list 1s 10s 1m"),
        (custom("mail.retry"), "custom mail.retry"),
    ],
)
def test_a_policy_has_one_canonical_text(policy: RetryPolicy, text: str) -> None:
    assert retry_text(policy) == text
    assert parse_retry(text) == policy


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("  fixed   10s \t x3 ", fixed("10s", limit=3)),
        ("linear 5s +5s", linear("5s", step="5s")),
        ("exponential 1s", exponential()),
        ("exponential 1s x5", exponential(5)),
        ("exponential 250ms *3 jitter 1", exponential(base="250ms", factor=3, jitter=1)),
        ("custom x3", custom("x3")),
    ],
)
def test_text_may_leave_out_what_has_a_default(text: str, policy: RetryPolicy) -> None:
    assert parse_retry(text) == policy


@pytest.mark.parametrize("text", ["", "sometimes", "Fixed 10s", "x3"])
def test_an_unknown_policy_is_answered_with_all_that_are_known(text: str) -> None:
    with pytest.raises(BadInput, match=r"unknown retry policy .*`never`, `fixed 10s x3`, `linear"):
        parse_retry(text)


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("never ever", "`never`"),
        ("fixed", "`fixed 10s x3`"),
        ("fixed 10s x", "`fixed 10s x3`"),
        ("fixed 10s x-1", "`fixed 10s x3`"),
        ("fixed 10s x3 x4", "`fixed 10s x3`"),
        ("linear 5s 5s", r"`linear 5s \+5s cap 1m x10`"),
        ("exponential 1s *nan", r"`exponential 1s \*2 cap 1h jitter 0.5 x5`"),
        ("exponential 1s jitter 1.2.3", r"`exponential 1s \*2 cap 1h jitter 0.5 x5`"),
        ("list", "`list 1s 10s 1m`"),
        ("custom", "`custom name`"),
        ("custom two words", "`custom name`"),
    ],
)
def test_a_text_that_cannot_be_read_is_answered_with_an_example(text: str, example: str) -> None:
    with pytest.raises(BadInput, match=f"cannot read the retry policy .* like {example}"):
        parse_retry(text)


def test_a_choice_by_error_has_no_text_and_says_to_use_json() -> None:
    with pytest.raises(BadInput, match="has no text; send it as JSON"):
        retry_text(by_error({ValueError: never()}, otherwise=never()))


# --- Refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((-1, None), r"the delay \(whole microseconds\) must be a whole number from 0 .* not -1"),
        ((1.5, None), r"the delay \(whole microseconds\) .* not 1.5"),
        ((True, None), r"the delay \(whole microseconds\) .* not True"),
        (("10s", None), r"the delay \(whole microseconds\) .* not '10s'"),
        ((LONGEST + 1, None), r"the delay \(whole microseconds\) must be a whole number from 0 to"),
        ((1, -1), r"the limit \(None: no limit\) must be a whole number from 0 to 1,000,000,000"),
        ((1, "3"), r"the limit \(None: no limit\) .* not '3'"),
    ],
)
def test_an_impossible_fixed_policy_is_refused(fields: tuple[int, int], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Fixed(*fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((-1, 0, 0, None), "the first delay .* not -1"),
        ((0, -1, 0, None), "the step .* not -1"),
        ((0, 0, -1, None), "the cap .* not -1"),
        ((HOUR, 0, SECOND, None), "the cap of 1s is below the first delay of 1h; raise the cap"),
        ((0, 0, 0, -1), "the limit .* not -1"),
    ],
)
def test_an_impossible_linear_policy_is_refused(
    fields: tuple[int, int, int, int | None], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        Linear(*fields)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"limit": -1}, "the limit .* not -1"),
        ({"base": 0}, "the base .* must be a whole number from 1 to .*, not 0"),
        ({"base": 2 * HOUR}, "the cap of 1h is below the first delay of 2h"),
        ({"factor": 0.5}, "the factor must be a number from 1 to .*, not 0.5"),
        ({"factor": float("nan")}, "the factor .* not nan"),
        ({"factor": float("inf")}, "the factor .* not inf"),
        ({"factor": "2"}, "the factor .* not '2'"),
        ({"jitter": -0.1}, "the jitter must be a number from 0 to 1, not -0.1"),
        ({"jitter": 1.1}, "the jitter .* not 1.1"),
        ({"jitter": float("nan")}, "the jitter .* not nan"),
    ],
)
def test_an_impossible_exponential_policy_is_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        msgspec.structs.replace(exponential(5), **wrong)


def test_an_empty_list_is_refused_and_so_is_a_bad_entry() -> None:
    with pytest.raises(BadInput, match="needs at least one; say never"):
        listed()
    with pytest.raises(BadInput, match=r"each delay .* not -1"):
        Listed((1, -1))


@pytest.mark.parametrize("name", ["", "two words", "line\n", "\ud800", 5])
def test_a_handler_name_that_cannot_be_written_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="the name of a retry handler must be printable text"):
        custom(name)


def test_a_choice_by_error_without_rules_or_with_something_else_is_refused() -> None:
    with pytest.raises(BadInput, match="needs at least one rule"):
        by_error({}, otherwise=never())
    with pytest.raises(BadInput, match="the name of an error must be printable text"):
        by_error({"": never()}, otherwise=never())
    with pytest.raises(BadInput, match=r"needs retry policies, such as .* not 'never'"):
        by_error({"E": "never"}, otherwise=never())  # type: ignore[dict-item]
    with pytest.raises(BadInput, match=r"needs retry policies, such as .* not None"):
        by_error({"E": never()}, otherwise=None)  # type: ignore[arg-type]
