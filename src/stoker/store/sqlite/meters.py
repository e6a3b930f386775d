"""Meters during one transaction: the units that keys and limited tasks hold, and their rates.

What is held is read at most once and written at most once, whatever comes and goes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from stoker.kernel.admission import Turnstile
from stoker.store.files import statements
from stoker.store.sqlite.library import Connection

_SQL = statements("stoker.store.sqlite.sql", "meters.sql")
_MANY = 10
"""Meters that are worth reading for the one that is asked for."""


class Meters:
    """What one transaction knows of meters, and does to them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stored: dict[int, dict[str, int]] = {}
        self._moved: dict[int, dict[str, int]] = {}
        self._known_whole: set[int] = set()

    def moved(self, queue: int) -> dict[str, int]:
        """What was taken or given back of a queue's units, to be added to."""
        return self._moved.setdefault(queue, {})

    def used(self, queue: int, meter: str) -> int:
        """The units that are held now."""
        return self._read(queue, meter) + self.moved(queue).get(meter, 0)

    def reading(self, queue: int, wanted: int) -> Callable[[str], int]:
        """How to ask for the units held by so many of a queue's meters."""
        self.read_all(queue, wanted)
        if queue not in self._known_whole:
            return partial(self.used, queue)
        stored, moved = self._stored[queue].get, self.moved(queue).get
        return lambda meter: stored(meter, 0) + moved(meter, 0)

    def _read(self, queue: int, meter: str) -> int:
        known = self._stored.setdefault(queue, {})
        stored = known.get(meter)
        if stored is None:
            if queue in self._known_whole:
                return 0
            stored = self._connection.execute(_SQL["use"], (queue, meter)).get or 0
            known[meter] = stored
        return stored

    def read_all(self, queue: int, wanted: int) -> None:
        """Read what every meter of a queue says at once, if that is worth it for so many."""
        most = _MANY * wanted
        if queue not in self._known_whole:
            rows = self._connection.execute(_SQL["all_use"], (queue, most + 1)).fetchall()
            if len(rows) <= most:
                self._known_whole.add(queue)
                self._stored[queue] = dict(rows)

    def recount(self, queue: int, *, keys: bool, tasks: str) -> None:
        """Other things are limited now: count what is held in the queue anew."""
        self.settle()
        self._stored.clear()
        self._known_whole.clear()
        run = self._connection.execute
        run(_SQL["drop_all_use"], (queue,))
        run(_SQL["count_use"], (queue, tasks, keys))

    def settle(self) -> None:
        """Write what has changed. A meter that says nothing is not kept."""
        for queue in self._moved:
            self._settle(queue)
        self._moved.clear()

    def _settle(self, queue: int) -> None:
        moved = self._moved[queue]
        self.read_all(queue, len(moved))
        if queue not in self._known_whole:
            for meter in moved:
                self._read(queue, meter)
        stored = self._stored.setdefault(queue, {})
        used = {meter: stored.get(meter, 0) + units for meter, units in moved.items() if units}
        stored.update(used)
        held = [(queue, meter, units) for meter, units in used.items() if units]
        self._for_all("write_use", held)
        self._for_all("drop_use", [(queue, meter) for meter, units in used.items() if not units])

    def _for_all(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            self._connection.executemany(_SQL[name], rows)

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
