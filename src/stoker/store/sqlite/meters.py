"""Meters during one transaction: the units that keys and limited tasks hold, and their rates.

What is held is read at most once and written at most once, whatever comes and goes meanwhile. Up
to a thousand meters of a queue are kept together in one row, which costs little more than one of
them would; those that come when it is full have a row each, until they hold nothing again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

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


class _Row:
    """The row of those together, as it is written. What it said last need not be read anew."""

    def __init__(self) -> None:
        self._last: tuple[str, dict[str, int]] = ("{}", {})

    def read(self, text: str) -> dict[str, int]:
        """What it says, to be changed."""
        last, units = self._last
        return units.copy() if text == last else _DECODER.decode(text)

    def written(self, units: dict[str, int]) -> str:
        """The row that says so."""
        text = _ENCODER.encode(units).decode()
        self._last = (text, units.copy())
        return text


_ROW = _Row()


class Meters:
    """What one transaction knows of meters, and does to them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._held: dict[int, _Held] = {}

    def move(self, queue: int, meters: Iterable[str | None], units: Iterable[int]) -> None:
        """Units of a queue are taken, or given back: of each meter so many."""
        self._of(queue).move(meters, units)

    def reading(self, queue: int) -> Callable[[str], int | None]:
        """How to ask for the units that a queue's meters hold now, till they move again. One that
        holds none may say nothing."""
        return self._of(queue).reading()

    def _of(self, queue: int) -> _Held:
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
        for held in self._held.values():
            held.settle()

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
        self._together = _ROW.read(text or "{}")
        self._apart: dict[str, int] = {}
        self._any_apart = connection.execute(_SQL["any_use"], (queue,)).get is not None
        self._changed = False
        self._changed_apart: set[str] = set()

    def reading(self) -> Callable[[str], int | None]:
        """How to ask what a meter says."""
        return self._units if self._any_apart else self._together.get

    def _units(self, meter: str) -> int:
        return self._together.get(meter) or self._units_apart(meter)

    def _units_apart(self, meter: str) -> int:
        units = self._apart.get(meter)
        if units is None and self._any_apart:
            units = self._connection.execute(_SQL["use"], (self._queue, meter)).get
        return self._apart.setdefault(meter, units or 0)

    def move(self, meters: Iterable[str | None], units: Iterable[int]) -> None:
        """Each of these takes so many units, or gives them back. It stays in its place until it is
        empty; a new one goes to the others, if they have room for it."""
        together = self._together
        self._changed = True
        for meter, change in zip(meters, units, strict=True):
            if meter is None or not change:
                continue
            before = together.get(meter, 0)
            if not before and (self._any_apart or len(together) >= _TOGETHER):
                self._move_apart(meter, change)
            elif before + change:
                together[meter] = before + change
            else:
                del together[meter]

    def _move_apart(self, meter: str, change: int) -> None:
        before = self._units_apart(meter)
        if not before and len(self._together) < _TOGETHER:
            self._together[meter] = change
            return
        self._any_apart = True
        self._apart[meter] = before + change
        self._changed_apart.add(meter)

    def settle(self) -> None:
        """Write down what has changed."""
        if self._changed:
            self._write_together()
            self._write_apart()
            self._changed = False

    def _write_together(self) -> None:
        run, queue = self._connection.execute, self._queue
        if self._together:
            run(_SQL["write_together"], (queue, _ROW.written(self._together)))
        else:
            run(_SQL["drop_together"], (queue,))

    def _write_apart(self) -> None:
        changed = [(self._queue, meter, self._apart[meter]) for meter in self._changed_apart]
        for_all(self._connection, _SQL["write_use"], [row for row in changed if row[2]])
        gone = [row[:2] for row in changed if not row[2]]
        for_all(self._connection, _SQL["drop_use"], gone)
        self._changed_apart.clear()
