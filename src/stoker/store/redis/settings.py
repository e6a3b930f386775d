"""Settings of a queue as the server is told: whatever it has to reckon with, in whole numbers.

The settings themselves travel along as text, for those who ask for them. What a queue had been told
by a version of Stoker that knew fewer rules is understood as it was meant: it has no such rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stoker.kernel.amount import units
from stoker.kernel.queue import Order, QueueSettings
from stoker.kernel.rate import Rate
from stoker.store.redis.layout import raw


def settings_told(name: str, settings: QueueSettings, *, away: bool = False) -> list[Any]:
    """Settings in the order of `lua/settings.lua`; `away`: the jobs live in another partition."""
    limits = {key: settings.key_units(key) for key in {*settings.keys, *settings.shares}}
    return [
        name,
        msgspec.json.encode(settings).decode(),
        int(settings.order is Order.TIME_RANK),
        int(settings.paused),
        settings.units(),
        None if settings.key_capacity is None else units(settings.key_capacity),
        _packed({key: limit for key, limit in limits.items() if limit is not None}),
        int(away) or None,
        _packed(_rules(settings)),
    ]


def _packed(facts: Mapping[str, Any]) -> msgspec.Raw | None:
    return raw(msgspec.msgpack.encode(facts)) if facts else None


def _rules(settings: QueueSettings) -> dict[str, Any]:
    """What `lua/books.lua` calls rules, as far as there are any."""
    rules = {
        "names": sorted({*settings.tasks, *settings.task_rates}),
        "tasks": {task: units(limit) for task, limit in settings.tasks.items()},
        "rate": _rate(settings.rate),
        "key_rate": _rate(settings.key_rate),
        "key_rates": _rates(settings.key_rates),
        "task_rates": _rates(settings.task_rates),
        "lent": {key: settings.lent_units(key) for key in settings.shares if settings.lend},
        "within": settings.within,
        "fair": settings.fair,
        "turns": {key: units(turns) for key, turns in settings.turns.items()},
        "ageing": settings.ageing,
    }
    return {rule: said for rule, said in rules.items() if said or said == ""}


def _rates(rates: Mapping[str, Rate]) -> dict[str, list[int] | None]:
    return {name: _rate(rate) for name, rate in rates.items()}


def _rate(rate: Rate | None) -> list[int] | None:
    if rate is None:
        return None
    burst = [] if rate.burst is None else [units(rate.burst)]
    return [units(rate.amount), rate.period, int(rate.fixed), *burst]
