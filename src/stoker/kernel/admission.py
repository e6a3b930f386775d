"""Who may start: capacity times weight, by queue and by key.

Asked job by job, in the queue's order, inside the claim's atomic step. A job that does not fit
holds back those behind it (else a heavy job would starve): its key's if its key is full, the
whole queue if the queue is. A job of weight 0 neither counts nor waits.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from stoker.kernel.queue import QueueSettings


class Admission(enum.Enum):
    """The turnstile's answer for one job."""

    ENTER = "enter"
    KEY_FULL = "key full"
    QUEUE_FULL = "queue full"


class Turnstile:
    """Counts what enters a queue during one claim, on top of what is in already."""

    def __init__(self, settings: QueueSettings, used: int, key_used: Callable[[str], int]) -> None:
        self.settings = settings
        self.used = used
        self.full = False
        self._limit = settings.units()
        self._first_use = key_used
        self._key_used: dict[str, int] = {}
        self._shut_keys: set[str] = set()

    def ask(self, key: str | None, weight: int) -> Admission:
        """May the next job in order enter? If so it is counted."""
        if weight == 0:
            return Admission.ENTER
        if self.full:
            return Admission.QUEUE_FULL
        if key is not None and not self._key_fits(key, weight):
            self._shut_keys.add(key)
            return Admission.KEY_FULL
        if not _fits(self.used, weight, self._limit):
            self.full = True
            return Admission.QUEUE_FULL
        self.used += weight
        if key is not None:
            self._key_used[key] = self._used_by(key) + weight
        return Admission.ENTER

    def _key_fits(self, key: str, weight: int) -> bool:
        if key in self._shut_keys:
            return False
        limit = self.settings.key_units(key)
        return limit is None or _fits(self._used_by(key), weight, limit)

    def _used_by(self, key: str) -> int:
        if key not in self._key_used:
            self._key_used[key] = self._first_use(key)
        return self._key_used[key]


def _fits(used: int, weight: int, limit: int | None) -> bool:
    return limit is None or used + weight <= limit or used == 0
