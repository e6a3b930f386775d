"""Settings of queues: what they mean, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from stoker.errors import BadInput
from stoker.kernel.job import State
from stoker.kernel.queue import DEFAULTS, HOUR, Order, QueueSettings, Retention, units


@pytest.mark.parametrize(
    ("amount", "counted"), [(1, 1000), (0.5, 500), (0.001, 1), (2.125, 2125), (0.1, 100), (0, 0)]
)
def test_amounts_are_counted_in_thousandths(amount: float, counted: int) -> None:
    assert units(amount) == counted


BEYOND = [1e9 + 1, 2**31, 2**63, 10**30, 1e300, 10**5000, float("inf"), float("nan")]
NO_NUMBERS = [-1, True, "5", [5]]


def named(value: object) -> str:
    return str(value)[:10] if value != 10**5000 else "10**5000"


@pytest.mark.parametrize("amount", [*BEYOND, *NO_NUMBERS], ids=named)
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("capacity", lambda amount: {"capacity": amount}),
        ("key_capacity", lambda amount: {"key_capacity": amount}),
        (r"keys\['a'\]", lambda amount: {"keys": {"a": amount}}),
        (r"tasks\['a'\]", lambda amount: {"tasks": {"a": amount}}),
        (r"shares\['a'\]", lambda amount: {"capacity": 1, "shares": {"a": amount}}),
        (r"turns\['a'\]", lambda amount: {"turns": {"a": amount}}),
    ],
)
def test_an_amount_out_of_range_is_refused_with_the_range(
    name: str, settings: Callable[[object], dict[str, Any]], amount: object
) -> None:
    with pytest.raises(BadInput, match=f"^{name} must be a number from 0 to 1,000,000,000, not "):
        QueueSettings(**settings(amount))


def test_the_greatest_amount_is_taken() -> None:
    assert QueueSettings(capacity=10**9).units() == 10**12


@pytest.mark.parametrize("ageing", [0, -1, 1.5, True, *BEYOND[2:]], ids=named)
def test_ageing_is_a_time_of_whole_microseconds(ageing: Any) -> None:
    with pytest.raises(BadInput, match="ageing must be longer than 0 and at most 1,000 years"):
        QueueSettings(ageing=ageing)


@pytest.mark.parametrize("amount", [0.0001, 1.23456, 1 / 3])
def test_an_amount_finer_than_a_thousandth_is_refused(amount: float) -> None:
    with pytest.raises(BadInput, match="finer than a thousandth"):
        units(amount)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"capacity": 0}, "capacity"),
        ({"key_capacity": 0}, "key_capacity"),
        ({"keys": {"a": 1, "b": 0}}, r"keys\['b'\]"),
    ],
)
def test_a_limit_of_nothing_is_refused_in_favour_of_a_pause(
    settings: dict[str, Any], name: str
) -> None:
    with pytest.raises(BadInput, match=f"{name} must be more than 0; pause the queue"):
        QueueSettings(**settings)


def test_a_limit_finer_than_a_thousandth_is_refused() -> None:
    with pytest.raises(BadInput, match="thousandth"):
        QueueSettings(capacity=0.0005)


@pytest.mark.parametrize("name", ["finished", "failed", "cancelled"])
@pytest.mark.parametrize("kept", [-1, 2**63 - 1, 10**30, 1.5, True, float("nan")])
def test_nothing_is_kept_for_less_than_no_time_or_for_ages(name: str, kept: Any) -> None:
    with pytest.raises(BadInput, match=f"retention.{name} must be from 0 to 1,000 years"):
        Retention(**{name: kept})


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        (State.FINISHED, HOUR),
        (State.FAILED, 30 * 24 * HOUR),
        (State.CANCELLED, 24 * HOUR),
    ],
)
def test_ended_jobs_are_kept_by_how_they_ended(state: State, kept: int) -> None:
    assert Retention().of(state) == kept
    assert Retention(0, 0, 0).of(state) == 0
    assert Retention(None, None, None).of(state) is None


def test_a_queue_nobody_spoke_of_has_no_limits() -> None:
    assert QueueSettings() == DEFAULTS
    assert (DEFAULTS.units(), DEFAULTS.key_units("k")) == (None, None)
    assert (DEFAULTS.order, DEFAULTS.paused, DEFAULTS.limited) == (Order.RANK_TIME, False, False)


@pytest.mark.parametrize(
    "settings",
    [QueueSettings(capacity=1), QueueSettings(key_capacity=1), QueueSettings(keys={"a": 1})],
)
def test_a_queue_with_any_limit_is_limited(settings: QueueSettings) -> None:
    assert settings.limited


def test_a_key_has_its_own_limit_or_the_general_one() -> None:
    settings = QueueSettings(capacity=7, key_capacity=2, keys={"big": 5.5})
    assert settings.units() == 7000
    assert (settings.key_units("big"), settings.key_units("other")) == (5500, 2000)
    assert QueueSettings(keys={"big": 5}).key_units("other") is None


@pytest.mark.parametrize(
    "settings",
    [
        DEFAULTS,
        QueueSettings(capacity=0.5, key_capacity=2, keys={"ä": 1.25}, order=Order.TIME_RANK),
        QueueSettings(paused=True, retention=Retention(0, None, 5)),
    ],
)
def test_settings_survive_being_written_down(settings: QueueSettings) -> None:
    text = msgspec.json.encode(settings)
    assert msgspec.json.decode(text, type=QueueSettings) == settings
    assert (text == b"{}") == (settings == DEFAULTS)


def test_settings_are_checked_also_when_they_are_read_or_replaced() -> None:
    with pytest.raises(msgspec.ValidationError, match="capacity must be more than 0"):
        msgspec.json.decode(b'{"capacity": 0}', type=QueueSettings)
    with pytest.raises(BadInput, match="capacity must be more than 0"):
        msgspec.structs.replace(DEFAULTS, capacity=0)
