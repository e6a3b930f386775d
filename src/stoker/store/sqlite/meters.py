"""Meters during one transaction: the units that keys and limited tasks hold, and their rates.

What is held is read at most once and written at most once, whatever comes and goes meanwhile. Up
to a thousand meters of a queue are kept together in one row, which costs little more than one of
them would; those that come when it is full have a row each, until they hold nothing again.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stoker.kernel.admission import Turnstile
from stoker.store.files import statements
from stoker.store.sqlite.library import Connection
from stoker.store.sqlite.many import for_all

_SQL = statements("stoker.store.sqlite.sql", "meters.sql")
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(dict[str, int])

_TOGETHER = 1000
"""Meters in one row: some twenty kilobytes then, written with each commit."""


class Meters:
    """What one transaction knows of meters, and does to them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._held: dict[int, _Held] = {}
        self._moved: dict[int, dict[str, int]] = {}

    def moved(self, queue: int) -> dict[str, int]:
        """What was taken or given back of a queue's units, to be added to."""
        return self._moved.setdefault(queue, {})

    def reading(self, queue: int) -> Callable[[str], int]:
        """How to ask for the units that a queue's meters hold now."""
        held, moved = self._before(queue).units, self.moved(queue).get
        return lambda meter: held(meter) + moved(meter, 0)

    def _before(self, queue: int) -> _Held:
        held = self._held.get(queue)
        if held is None:
            held = self._held[queue] = _Held(self._connection, queue)
        return held

    def recount(self, queue: int, *, keys: bool, tasks: str) -> None:
        """Other things are limited now: count what is held in the queue anew."""
        self.settle()
        self._held.clear()
        run = self._connection.execute
        run(_SQL["drop_together"], (queue,))
        run(_SQL["drop_all_use"], (queue,))
        run(_SQL["count_use"], (queue, tasks, keys))

    def settle(self) -> None:
        """Write what has changed. A meter that says nothing is not kept."""
        for queue, moved in self._moved.items():
            if moved:
                self._before(queue).settle(moved)
        self._moved.clear()

    # -- rates -----------------------------------------------------------------------------

    def flow(self, queue: str, meter: str) -> str:
        """What is remembered for a rate."""
        return self._connection.execute(_SQL["flow"], (queue, meter)).get or ""

    def remember_rates(self, queue: int, turnstile: Turnstile) -> None:
        """What has started under the rates of a queue, and when they may let somebody in."""
        run = self._connection.execute
        for flow in turnstile.flows():
            run(_SQL["write_flow"], flow)
        run(_SQL["write_opening"], (queue, turnstile.opens_at))


class _Held:
    """What the meters of a queue say, those apart as far as somebody has asked."""

    def __init__(self, connection: Connection, queue: int) -> None:
        self._connection = connection
        self._queue = queue
        text = connection.execute(_SQL["together"], (queue,)).get
        self._together: dict[str, int] = _DECODER.decode(text) if text else {}
        self._apart: dict[str, int] = {}
        self._any_apart = connection.execute(_SQL["any_use"], (queue,)).get is not None

    def units(self, meter: str) -> int:
        """What a meter says; 0 if it is not kept."""
        units = self._together.get(meter)
        if units is not None:
            return units
        return self._units_apart(meter) if self._any_apart else 0

    def _units_apart(self, meter: str) -> int:
        units = self._apart.get(meter)
        if units is None:
            found = self._connection.execute(_SQL["use"], (self._queue, meter)).get
            units = self._apart[meter] = found or 0
        return units

    def settle(self, moved: dict[str, int]) -> None:
        """Write down what was taken and given back. A meter stays in its place until it is empty;
        a new one goes to the others, if they have room for it."""
        together = self._together
        apart: dict[str, int] = {}
        for meter, change in moved.items():
            before = self.units(meter)
            if meter in together or (not before and len(together) < _TOGETHER):
                together[meter] = before + change
                if not before + change:
                    del together[meter]
            elif change:
                apart[meter] = before + change
        self._write_together()
        self._write_apart(apart)

    def _write_together(self) -> None:
        run, queue = self._connection.execute, self._queue
        if self._together:
            run(_SQL["write_together"], (queue, _ENCODER.encode(self._together).decode()))
        else:
            run(_SQL["drop_together"], (queue,))

    def _write_apart(self, moved: dict[str, int]) -> None:
        self._any_apart |= bool(moved)
        self._apart.update(moved)
        kept = [(self._queue, meter, units) for meter, units in moved.items() if units]
        gone = [(self._queue, meter) for meter, units in moved.items() if not units]
        for_all(self._connection, _SQL["write_use"], kept)
        for_all(self._connection, _SQL["drop_use"], gone)
