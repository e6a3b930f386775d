"""Settings of queues as words such as `capacity=5`, `keys.ann=2` or `rate=100/m`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from stoker.errors import BadInput
from stoker.kernel import duration
from stoker.kernel.amount import amount_text
from stoker.kernel.queue import DEFAULTS, Order, QueueSettings, Retention
from stoker.kernel.queue_forms import maintenance_text, read_setting
from stoker.kernel.rate import parse_rate
from stoker.kernel.window import Windows, parse_windows, windows_text

_SETTABLE = (
    "capacity=5, key_capacity=2, keys.NAME=3, tasks.NAME=2, rate=100/m, key_rate=5/s, "
    "key_rates.NAME=10/s, task_rates.NAME=1/s, within=QUEUE, shares.NAME=40, lend=yes, fair=yes, "
    "turns.NAME=3, ageing=10m, order=rank-time or time-rank, paused=yes, windows=22:00-06:00, "
    "maintenance='sun 02:00-04:00, drain 30m', throttled=no, retention.finished=1h, "
    "retention.failed=30d, retention.cancelled=0"
)
_NOTHING = "none"

# --- Showing -------------------------------------------------------------------------------------


def settings_text(settings: QueueSettings) -> str:
    """What a queue was told, in the words that `changed` reads, as a shell takes them."""
    return shlex.join(settings_words(settings))


def settings_words(settings: QueueSettings) -> list[str]:
    """What a queue was told, a word for each."""
    told = [name for name in settings.__struct_fields__ if _is_told(settings, name)]
    return [word for name in told for word in _words(name, getattr(settings, name))]


def _is_told(settings: QueueSettings, name: str) -> bool:
    return bool(getattr(settings, name) != getattr(DEFAULTS, name))


def _words(name: str, value: object) -> Iterator[str]:
    if isinstance(value, Retention):
        for state in value.__struct_fields__:
            kept = getattr(value, state)
            if kept != getattr(DEFAULTS.retention, state):
                yield f"{name}.{state}={'forever' if kept is None else duration.text(kept)}"
    elif isinstance(value, Mapping):
        for member, each in sorted(value.items()):
            yield f"{name}.{member}={_shown(each)}"
    elif name == "ageing":
        yield f"{name}={duration.text(cast('int', value))}"
    else:
        yield f"{name}={_shown(value)}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return amount_text(value)
    if isinstance(value, Windows):
        return windows_text(value)
    if isinstance(value, tuple):
        return maintenance_text(value)
    return value.value if isinstance(value, Order) else str(value)


# --- Reading -------------------------------------------------------------------------------------


def changed(settings: QueueSettings, words: Sequence[str]) -> QueueSettings:
    """The settings after changes such as `capacity=5 keys.ann=3 retention.finished=1h`."""
    facts = msgspec.structs.asdict(settings)
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise BadInput(f"cannot read {word!r}; write name=value, such as {_SETTABLE}")
        if not value.strip():
            raise BadInput(
                f"{word} says nothing; write a value, or {name}=none to take a limit away"
            )
        facts |= _change(facts, name, value.strip())
    return QueueSettings(**facts)


def _change(facts: Mapping[str, Any], name: str, value: str) -> dict[str, Any]:
    family, _, member = name.partition(".")
    if family == "retention" and member in Retention.__struct_fields__:
        kept = None if value in ("forever", "none") else duration.micros(value)
        return {"retention": msgspec.structs.replace(facts["retention"], **{member: kept})}
    if family in _FAMILIES and member:
        others = {each: known for each, known in facts[family].items() if each != member}
        read = _FAMILIES[family](name, value)
        return {family: others if read is None else {**others, member: read}}
    if name in _FAMILIES and value == _NOTHING:
        return {name: {}}
    if name in _PLAIN:
        return {name: _PLAIN[name](name, value)}
    raise _refusal(name, value)


def _refusal(name: str, value: str) -> BadInput:
    return BadInput(
        f"cannot set {name}={value}; settings are {_SETTABLE}; `none` takes a limit away"
    )


def _limit(name: str, value: str) -> float | None:
    if value == _NOTHING:
        return None
    try:
        return float(value)
    except ValueError:
        raise BadInput(
            f"{name} must be a number such as 5 or 2.5, or none; not {value!r}"
        ) from None


def _unless_none(read: Callable[[str], object]) -> Callable[[str, str], Any]:
    return lambda _, value: None if value == _NOTHING else read(value)


def _flag(name: str, value: str) -> bool:
    if value not in ("yes", "no"):
        raise _refusal(name, value)
    return value == "yes"


def _order(name: str, value: str) -> Order:
    if value not in [order.value for order in Order]:
        raise _refusal(name, value)
    return Order(value)


_rate = _unless_none(parse_rate)
_PLAIN: Mapping[str, Callable[[str, str], Any]] = {
    "capacity": _limit,
    "key_capacity": _limit,
    "rate": _rate,
    "key_rate": _rate,
    "within": _unless_none(str),
    "ageing": _unless_none(duration.micros),
    "order": _order,
    "paused": _flag,
    "lend": _flag,
    "fair": _flag,
    "throttled": _flag,
    "windows": _unless_none(parse_windows),
    "maintenance": lambda name, value: read_setting(name, None if value == _NOTHING else value),
}
_FAMILIES: Mapping[str, Callable[[str, str], Any]] = {
    "keys": _limit,
    "tasks": _limit,
    "shares": _limit,
    "turns": _limit,
    "key_rates": _rate,
    "task_rates": _rate,
}
