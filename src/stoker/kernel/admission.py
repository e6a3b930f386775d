"""Who may start: capacity, shares and rates, by queue, by key and by task.

Asked job by job, in the queue's order, inside the claim's atomic step. A job that does not fit
holds back those behind it (else a heavy job would starve): its task's if its task is full, the
whole queue if the queue is or one that it is within. If its key is full it holds back the key's
jobs of the same limited task, or of all tasks without a limit: those that stand in one lane, so
that nobody has to know who stands in others. A job of weight 0 neither counts nor waits.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Protocol

from stoker.kernel.queue import QueueSettings
from stoker.kernel.rate import Flow, Rate


class Admission(enum.Enum):
    """The turnstile's answer for one job."""

    ENTER = "enter"
    KEY_FULL = "key full"
    TASK_FULL = "task full"
    QUEUE_FULL = "queue full"
    SHARE_FULL = "share full"
    """It may have what is lent, if nobody else wants to enter."""


def of_key(key: str) -> str:
    """The name of a key's meter within its queue; a queue's own has none."""
    return f"={key}"


def of_task(task: str) -> str:
    """The name of a task's meter within its queue."""
    return f"~{task}"


class Ledger(Protocol):
    """What is on a queue's books, by meter."""

    def used(self, queue: str, meter: str) -> int:
        """The units that run."""

    def flow(self, queue: str, meter: str) -> str:
        """What is remembered for a rate, "" if nothing is."""


class _Limit:
    """One meter's limits during one claim: what may be in at once, and what may start in a time."""

    __slots__ = ("_capacity", "_share", "flow", "moved", "opening", "used")

    def __init__(
        self, capacity: int | None, used: int, flow: Flow | None, share: int | None
    ) -> None:
        self._capacity = capacity
        self.used = used
        self.flow = flow
        self.opening: int | None = None
        """When time will have made room for the job refused last; None: an end must."""
        self.moved = False
        self._share = share

    def fits(self, weight: int) -> bool:
        self.opening = None
        if self._capacity is not None and not fits(self.used, weight, self._capacity):
            return False
        if self.flow is not None:
            self.opening = self.flow.free_at(weight)
        return self.opening is None

    @property
    def is_full(self) -> bool:
        return self._capacity is not None and self.used >= self._capacity

    def is_beyond(self, weight: int) -> bool:
        """Does it have its share, and are those who want more to wait for what is left?"""
        return self._share is not None and not fits(self.used, weight, self._share)

    def enter(self, weight: int) -> None:
        self.used += weight
        if self.flow is not None:
            self.flow.take(weight)
            self.moved = True


class _Gate:
    """A limit as those see it who stand in one line before it: shut once it has refused one."""

    __slots__ = ("_beyond", "full", "limit", "opening", "shut")

    def __init__(self, limit: _Limit, full: Admission) -> None:
        self.limit = limit
        self.full = full
        self.shut = False
        self.opening: int | None = None
        self._beyond = False

    def refuses(self, weight: int) -> bool:
        if not self.shut:
            self.shut = not self.limit.fits(weight)
            self.opening = self.limit.opening
        return self.shut

    def is_beyond(self, weight: int) -> bool:
        self._beyond = self._beyond or self.limit.is_beyond(weight)
        return self._beyond


class Turnstile:
    """One queue's entrance during one claim, on top of what is in already."""

    def __init__(
        self,
        name: str,
        settings: QueueSettings,
        ledger: Ledger,
        now: int,
        outer: Turnstile | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self._ledger = ledger
        self._now = now
        self.outer = outer
        """The queue that it is within. Only that one's own limit counts here."""
        self._keys_wait = settings.limits_keys
        self._limits: dict[str, _Limit] = {}
        self._gates: dict[tuple[str, str | None], _Gate] = {}
        self._ways: dict[tuple[str | None, str], list[_Gate]] = {}
        own = self._limit("", settings.units(), settings.rate)
        self.own = self._gate("", None, own, Admission.QUEUE_FULL)
        """The gate of the whole queue."""

    @property
    def full(self) -> bool:
        """Has the queue, or one that it is within, refused anybody?"""
        return self.own.shut or (self.outer is not None and self.outer.own.shut)

    @property
    def opens_at(self) -> int | None:
        """The next moment at which a rate may let somebody in who was refused."""
        moments = [gate.opening for gate in self._gates.values()]
        moments.append(None if self.outer is None else self.outer.own.opening)
        return min((moment for moment in moments if moment is not None), default=None)

    def key_opens_at(self, key: str) -> int | None:
        """When a key's rate will let in the job it refused last; None: something must end."""
        return self._of_key(key).opening

    def key_is_full(self, key: str) -> bool:
        """Has a key no room at all until something ends?"""
        return self._keys_wait and self._of_key(key).is_full

    def ask(self, key: str | None, task: str, weight: int, *, lent: bool = False) -> Admission:
        """May the next job in order enter? If so it is counted. `lent`: also beyond its share."""
        barred = self.bars(key, task, weight, lent=lent)
        if barred is not None:
            return barred
        return Admission.ENTER if self.enter(key, task, weight) else Admission.QUEUE_FULL

    def bars(
        self, key: str | None, task: str, weight: int, *, lent: bool = False
    ) -> Admission | None:
        """Is there no room for the key or the task of the job whose turn it would be, or has the
        queue refused somebody? Who is barred is not compared with those of other queues: others
        of its own have their turn."""
        if weight == 0:
            return None
        if self.full:
            return Admission.QUEUE_FULL
        return _refusal(self._concerned(key, task), weight, lent=lent)

    def enter(self, key: str | None, task: str, weight: int) -> bool:
        """Let a job in that is not barred, if the queue has room, and the one that it is within."""
        if weight == 0:
            return True
        outer = None if self.outer is None else self.outer.own
        if self.full or self.own.refuses(weight) or (outer and outer.refuses(weight)):
            return False
        for gate in self._concerned(key, task):
            gate.limit.enter(weight)
        self.own.limit.enter(weight)
        if outer:
            outer.limit.enter(weight)
        return True

    def _concerned(self, key: str | None, task: str) -> list[_Gate]:
        """What a job has to pass before the queue's own gate. It is asked for every job, twice."""
        known = self._ways.get((key, task))
        if known is None:
            known = self._ways[key, task] = self._way(key, task)
        return known

    def _way(self, key: str | None, task: str) -> list[_Gate]:
        """The key comes first: who waits for that holds up no task."""
        gates = []
        lane = of_task(task) if self.settings.limits_task(task) else ""
        if key is not None and self._keys_wait:
            gates.append(self._gate(lane, key, self._of_key(key), Admission.KEY_FULL))
        if lane:
            gates.append(self._gate(lane, None, self._of_task(task), Admission.TASK_FULL))
        return gates

    def _gate(self, lane: str, key: str | None, limit: _Limit, full: Admission) -> _Gate:
        known = self._gates.get((lane, key))
        if known is None:
            known = self._gates[lane, key] = _Gate(limit, full)
        return known

    def flows(self) -> Iterator[tuple[str, str, str, int]]:
        """What is to be remembered of rates: queue, meter, state, and until when."""
        for meter, limit in self._limits.items():
            if limit.flow is not None and limit.moved:
                yield self.name, meter, limit.flow.state, limit.flow.until

    def _of_key(self, key: str) -> _Limit:
        meter = of_key(key)
        known = self._limits.get(meter)
        if known is None:
            settings = self.settings
            rate = settings.key_rates.get(key, settings.key_rate)
            known = self._limit(meter, settings.key_units(key), rate, settings.lent_units(key))
        return known

    def _of_task(self, task: str) -> _Limit:
        meter = of_task(task)
        known = self._limits.get(meter)
        if known is None:
            settings = self.settings
            known = self._limit(meter, settings.task_units(task), settings.task_rates.get(task))
        return known

    def _limit(
        self, meter: str, capacity: int | None, rate: Rate | None, share: int | None = None
    ) -> _Limit:
        flow = None
        if rate is not None:
            flow = Flow(rate, self._ledger.flow(self.name, meter), self._now)
        counted = capacity is not None or share is not None
        used = self._ledger.used(self.name, meter) if counted else 0
        limit = self._limits[meter] = _Limit(capacity, used, flow, share)
        return limit


def _refusal(gates: list[_Gate], weight: int, *, lent: bool) -> Admission | None:
    for gate in gates:
        if gate.shut:
            gate.limit.opening = gate.opening
            return gate.full
    for gate in gates:
        if not lent and gate.is_beyond(weight):
            return Admission.SHARE_FULL
        if gate.refuses(weight):
            return gate.full
    return None


def fits(used: int, weight: int, limit: int | None) -> bool:
    """Is there room for so much? What is heavier than the limit fits where nothing else is."""
    return limit is None or used + weight <= limit or used == 0
