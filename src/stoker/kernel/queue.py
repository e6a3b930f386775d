"""What a queue is told: settings as data, changed while it runs.

A queue comes into being when a job or a worker names it; settings are optional.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping

import msgspec

from stoker.errors import BadInput
from stoker.kernel.job import WHOLE_WEIGHT
from stoker.kernel.retention import HOUR, Retention

__all__ = ["DEFAULTS", "HOUR", "Order", "QueueSettings", "Retention", "units"]


class Order(enum.Enum):
    """Which of two due jobs goes first. Arrival breaks what remains equal.

    >>> QueueSettings(order=Order.TIME_RANK).order.value
    'time-rank'
    """

    RANK_TIME = "rank-time"
    TIME_RANK = "time-rank"


class QueueSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """The operator's word on one queue.

    `capacity` limits the summed weight of its running jobs, `key_capacity` that of one key's,
    with exceptions by key in `keys`. A job heavier than a limit runs alone.

    >>> settings = QueueSettings(capacity=10, key_capacity=2, keys={"ann": 0.5})
    >>> settings.units(), settings.key_units("bob"), settings.key_units("ann")
    (10000, 2000, 500)
    """

    capacity: float | None = None
    key_capacity: float | None = None
    keys: Mapping[str, float] = {}
    order: Order = Order.RANK_TIME
    paused: bool = False
    retention: Retention = Retention()

    def __post_init__(self) -> None:
        limits = {"capacity": self.capacity, "key_capacity": self.key_capacity}
        limits |= {f"keys[{key!r}]": limit for key, limit in self.keys.items()}
        for name, limit in limits.items():
            if limit is not None and units(limit) < 1:
                raise BadInput(f"{name} must be more than 0; pause the queue to let nothing run")

    @property
    def limited(self) -> bool:
        """Can a job's end make room for another?"""
        return bool(self.capacity or self.key_capacity or self.keys)

    def units(self) -> int | None:
        """The queue's capacity in thousandths."""
        return None if self.capacity is None else units(self.capacity)

    def key_units(self, key: str) -> int | None:
        """One key's capacity in thousandths."""
        limit = self.keys.get(key, self.key_capacity)
        return None if limit is None else units(limit)


def units(amount: float) -> int:
    """A weight or capacity in thousandths, as it is counted."""
    if not math.isfinite(amount * WHOLE_WEIGHT):
        raise BadInput(f"{amount} is no amount; give a number, or nothing at all for no limit")
    counted = round(amount * WHOLE_WEIGHT)
    if abs(counted - amount * WHOLE_WEIGHT) > 1e-6:
        raise BadInput(f"{amount} is finer than a thousandth; round it to three decimals")
    return counted


DEFAULTS = QueueSettings()
"""A queue nobody has said anything about."""
