"""What a walk knows of the queues: their settings, what is on their books, and whose turn it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from stoker.kernel.admission import of_key
from stoker.kernel.queue import DEFAULTS, QueueSettings
from stoker.kernel.turns import Party, Turns
from stoker.store.postgres.rows import Row, settings_of
from stoker.store.postgres.texts import read
from stoker.store.turnstiles import Turnstiles

_USE = msgspec.json.Decoder(dict[str, int])
_FLOWS = msgspec.json.Decoder(dict[str, str])


class Ledger:
    """What is on the books of the queues, as far as the walk has come."""

    def __init__(self) -> None:
        self._used: dict[tuple[str, str], int] = {}
        self._flows: dict[tuple[str, str], str] = {}

    def used(self, queue: str, meter: str) -> int:
        return self._used.get((queue, meter), 0)

    def flow(self, queue: str, meter: str) -> str:
        return self._flows.get((queue, meter), "")

    def enter(self, queue: str, meter: str, used: int | None, flow: str | None) -> None:
        """What the server says of a meter; None: nothing, or nothing that counts."""
        if used is not None:
            self._used[queue, meter] = used
        if flow is not None:
            self._flows[queue, meter] = flow


class Known(NamedTuple):
    """A queue as the server knows it."""

    settings: QueueSettings
    clock: int
    reached: int
    """How far the jobs without a key have been served."""
    opens_at: int | None


_UNKNOWN = Known(DEFAULTS, 0, 0, None)


class Entrances:
    """What jobs meet in one claim: turnstiles, and turns."""

    def __init__(self, rows: Sequence[Row], now: int, ledger: Ledger | None = None) -> None:
        self.ledger = Ledger() if ledger is None else ledger
        self.now = now
        self.turnstiles = Turnstiles(lambda queue: self.known(queue).settings, self.ledger, now)
        self.turns: dict[str, Turns] = {}
        self._reached: dict[tuple[str, Party], int] = {}
        self._known: dict[str, Known] = {}
        for row in rows:
            self._learn(*row)

    def _learn(
        self,
        name: str,
        settings: str,
        used: int,
        task_use: str | None,
        flows: str | None,
        *rest: int,
    ) -> None:
        queue = read(name)
        self._known[queue] = Known(settings_of(settings), *rest)
        self.ledger.enter(queue, "", used, None)
        for task, held in _USE.decode(task_use or "{}").items():
            self.ledger.enter(queue, read(task), held, None)
        for meter, flow in _FLOWS.decode(flows or "{}").items():
            self.ledger.enter(queue, read(meter), None, flow)

    def known(self, queue: str) -> Known:
        """What is known of a queue."""
        return self._known.get(queue, _UNKNOWN)

    def learn_key(
        self, queue: str, key: str, turn: int, used: int | None, flow: str | None
    ) -> None:
        """What is on the books of a key, and how far it has been served."""
        self.ledger.enter(queue, of_key(key), used, flow)
        self._reached[queue, key] = turn

    def paused(self, queue: str) -> bool:
        """Does it pause, or what it is within?"""
        settings = self.known(queue).settings
        return settings.paused or self.known(settings.within or "").settings.paused

    def turns_of(self, queue: str) -> Turns | None:
        """Whose turn it is in a queue, if it is fair."""
        known = self.known(queue)
        if not known.settings.fair:
            return None
        self._reached[queue, None] = known.reached
        turns = Turns(known.settings, known.clock, lambda party: self._reached[queue, party])
        self.turns[queue] = turns
        return turns

    @property
    def rated(self) -> bool:
        """Is anything limited in time?"""
        return any(known.settings.has_rates for known in self._known.values())

    def again(self, now: int) -> Entrances:
        """The same as before anybody entered, at another moment."""
        other = Entrances((), now, self.ledger)
        other._reached, other._known = self._reached, self._known
        return other
