"""What a queue is told: settings as data, changed while it runs.

A queue comes into being when a job or a worker names it; settings are optional.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cached_property

import msgspec

from stoker.errors import BadInput
from stoker.kernel.amount import units
from stoker.kernel.duration import is_time
from stoker.kernel.facts import check_name, check_text
from stoker.kernel.hours import Maintenance, next_opening
from stoker.kernel.job import WHOLE_WEIGHT
from stoker.kernel.rate import Rate
from stoker.kernel.retention import HOUR, Retention
from stoker.kernel.window import Windows

__all__ = ["DEFAULTS", "HOUR", "Order", "QueueSettings", "Retention", "units"]


class Order(enum.Enum):
    """Which of two due jobs goes first. Arrival breaks what remains equal.

    >>> QueueSettings(order=Order.TIME_RANK).order.value
    'time-rank'
    """

    RANK_TIME = "rank-time"
    TIME_RANK = "time-rank"


class QueueSettings(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """The operator's word on one queue.

    `capacity` limits the summed weight of its running jobs, `key_capacity` that of one key's,
    with exceptions by key in `keys`, and `tasks` that of the tasks named there. A job heavier than
    a limit runs alone. `shares` are limits by key in percent of the capacity; if they are lent, a
    key may have more while nobody else wants it. Rates limit in the same ways what starts in a
    time. All that is said of a queue `within` which this one is counts for this one's jobs, too.

    If it is `fair` its keys take turns, one each, or as many as `turns` says. `ageing` sets time
    against rank: a job that has waited so long goes before a newer one that is one rank better.

    Its jobs start in its `windows` only, and not during `maintenance`. If it is `throttled`, only
    those start that a throttler admits, and only workers that have it take any.

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
    tasks: Mapping[str, float] = {}
    shares: Mapping[str, float] = {}
    lend: bool = False
    rate: Rate | None = None
    key_rate: Rate | None = None
    key_rates: Mapping[str, Rate] = {}
    task_rates: Mapping[str, Rate] = {}
    within: str | None = None
    fair: bool = False
    turns: Mapping[str, float] = {}
    ageing: int | None = None
    windows: Windows | None = None
    maintenance: tuple[Maintenance, ...] = ()
    throttled: bool = False

    def __post_init__(self) -> None:
        self._check_names()
        limits = {"capacity": self.capacity, "key_capacity": self.key_capacity}
        for name in ("keys", "tasks", "shares", "turns"):
            limits |= {f"{name}[{key!r}]": limit for key, limit in getattr(self, name).items()}
        for name, limit in limits.items():
            if limit is not None and units(limit, name) < 1:
                raise BadInput(f"{name} must be more than 0; pause the queue to let nothing run")
        if self.shares and self.capacity is None:
            raise BadInput("shares are parts of a capacity; give the queue one")
        if sum(self.shares.values()) > 100:
            raise BadInput("the shares of a queue cannot be more than 100 in all")
        if self.ageing is not None and not is_time(self.ageing, least=1):
            raise BadInput(
                "ageing must be longer than 0 and at most 1,000 years, in whole microseconds; "
                "leave it out for none"
            )
        if self.ageing is not None and self.order is Order.TIME_RANK:
            raise BadInput("a queue by time needs no ageing: nobody is passed there")

    def _check_names(self) -> None:
        for name in ("keys", "shares", "turns", "key_rates"):
            for key in getattr(self, name):
                check_name(f"a name in {name}", key)
        for task in (*self.tasks, *self.task_rates):  # many a job is of no task: its name is empty
            check_text("a name in tasks or task_rates", task)
        if self.within is not None:
            check_name("within", self.within)

    @cached_property
    def limited(self) -> bool:
        """Must each job be looked at before it may start, or take turns with others?"""
        return bool(
            self.capacity
            or self.key_capacity
            or self.keys
            or self.tasks
            or self.has_rates
            or self.within is not None
            or self.fair
            or self.ageing
        )

    @property
    def shares_room(self) -> bool:
        """May a job have to wait until others end that have another key?"""
        return bool(self.capacity or self.tasks or self.within is not None)

    @property
    def waits_for_room(self) -> bool:
        """May a job have to wait until others end?"""
        return bool(self.shares_room or self.key_capacity or self.keys or self.shares)

    @cached_property
    def limits_keys(self) -> bool:
        """May a key have to wait for room, or for its moment?"""
        capacities = self.key_capacity or self.keys or self.shares
        return bool(capacities or self.key_rate or self.key_rates)

    @property
    def has_rates(self) -> bool:
        """Is anything limited in time?"""
        return bool(self.rate or self.key_rate or self.key_rates or self.task_rates)

    @property
    def keeps_hours(self) -> bool:
        """Is it closed at times?"""
        return self.windows is not None or bool(self.maintenance)

    def opens_at(self, at: int, outer: QueueSettings | None = None) -> int | None:
        """The moment itself if it is open, and so is the queue that it is within; else the next
        such moment, None if there is none."""
        both = [self] if outer is None else [self, outer]
        closures = [each for settings in both for each in settings.maintenance]
        return next_opening([settings.windows for settings in both], closures, at)

    def units(self) -> int | None:
        """The queue's capacity in thousandths."""
        return None if self.capacity is None else units(self.capacity)

    def key_units(self, key: str) -> int | None:
        """One key's capacity in thousandths, its share apart if that is lent."""
        if key not in self.keys and key not in self.shares:
            return self._usual_key_units
        limit = self.keys.get(key, self.key_capacity)
        limits = [] if limit is None else [units(limit)]
        if key in self.shares and not self.lend:
            limits.append(self._share(key))
        return min(limits, default=None)

    @cached_property
    def _usual_key_units(self) -> int | None:
        return None if self.key_capacity is None else units(self.key_capacity)

    def lent_units(self, key: str) -> int | None:
        """What a key may have even if others want it, None if all of it."""
        return self._share(key) if self.lend and key in self.shares else None

    def _share(self, key: str) -> int:
        assert self.capacity is not None
        return units(self.shares[key]) * units(self.capacity) // (100 * WHOLE_WEIGHT)

    def limits_task(self, task: str) -> bool:
        """Does a task have a limit of its own?"""
        return task in self.tasks or task in self.task_rates

    def task_units(self, task: str) -> int | None:
        """One task's capacity in thousandths."""
        limit = self.tasks.get(task)
        return None if limit is None else units(limit)

    def turn_length(self, key: str | None, weight: int) -> int:
        """How far a job puts its key back in the order of turns."""
        turns = None if key is None else self.turns.get(key)
        return weight if turns is None else weight * WHOLE_WEIGHT // units(turns)


DEFAULTS = QueueSettings()
"""A queue nobody has said anything about."""
