"""The turnstiles of one claim."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stoker.kernel.admission import Ledger, Turnstile
from stoker.kernel.queue import QueueSettings


class Turnstiles:
    """One for each queue that is asked about; queues within the same one share its."""

    def __init__(self, settings: Callable[[str], QueueSettings], ledger: Ledger, now: int) -> None:
        self._settings = settings
        self._ledger = ledger
        self._now = now
        self._made: dict[str, Turnstile] = {}

    def of(self, queue: str) -> Turnstile:
        """A queue's, with that of the queue it is within; one level up and no more."""
        own = self._alone(queue)
        within = own.settings.within
        if within is not None and within != queue:
            own.outer = self._alone(within)
        return own

    def _alone(self, queue: str) -> Turnstile:
        known = self._made.get(queue)
        if known is None:
            known = Turnstile(queue, self._settings(queue), self._ledger, self._now)
            self._made[queue] = known
        return known

    def __iter__(self) -> Iterator[Turnstile]:
        return iter(self._made.values())
