"""Settings of a queue as people say them: rates, durations, windows and maintenance are texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stoker.errors import BadInput
from stoker.kernel.duration import micros
from stoker.kernel.hours import Maintenance, parse_maintenance
from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import Rate, parse_rate
from stoker.kernel.window import Windows, windows_of


def read_settings(said: Mapping[str, object]) -> dict[str, Any]:
    """Settings by name, as a queue keeps them. A rate may be a text such as `100 per minute`, a
    duration one such as `10m`, or a number of seconds.

    >>> read_settings({"rate": "10 per second", "ageing": "10m"})
    {'rate': Rate(amount=10.0, period=1000000, fixed=False, burst=None), 'ageing': 600000000}
    """
    unknown = said.keys() - set(QueueSettings.__struct_fields__)
    if unknown:
        known = ", ".join(QueueSettings.__struct_fields__)
        raise BadInput(f"a queue has no {', '.join(sorted(unknown))}; it has {known}")
    return {name: read_setting(name, value) for name, value in said.items()}


def read_setting(name: str, said: object) -> Any:
    """One setting, as a queue keeps it."""
    value = _TEXTS[name](said) if name in _TEXTS else said
    try:
        return msgspec.convert(value, _KINDS[name])
    except msgspec.ValidationError as error:
        raise BadInput(f"{name} cannot be set to {said!r}: {error}") from error


def _rate(said: object) -> Rate | None:
    if isinstance(said, str):
        return parse_rate(said)
    if said is not None and not isinstance(said, Rate):
        raise BadInput(f"a rate is a text such as 100 per minute, not {said!r}")
    return said


def _rates(said: object) -> object:
    if not isinstance(said, Mapping):
        return said
    return {name: _rate(rate) for name, rate in said.items()}


def _duration(said: Any) -> int | None:
    return None if said is None else micros(said)


def _windows(said: object) -> Windows | None:
    return None if said is None else windows_of(said)


def _closures(said: object) -> object:
    """One maintenance or several: a list, or a text with semicolons between them."""
    if said is None:
        return ()
    if isinstance(said, str):
        said = [text for text in said.split(";") if text.strip()]
    if not isinstance(said, list | tuple):
        said = [said]
    return tuple(parse_maintenance(each) if isinstance(each, str) else each for each in said)


def maintenance_text(closures: tuple[Maintenance, ...]) -> str:
    """Maintenance as `read_setting` reads it."""
    return "; ".join(map(str, closures))


_TEXTS: Mapping[str, Callable[[object], object]] = {
    "rate": _rate,
    "key_rate": _rate,
    "key_rates": _rates,
    "task_rates": _rates,
    "ageing": _duration,
    "windows": _windows,
    "maintenance": _closures,
}
_KINDS = {field.name: field.type for field in msgspec.structs.fields(QueueSettings)}
