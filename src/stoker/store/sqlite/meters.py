"""Meters during one transaction: the units that keys and limited tasks hold, and their rates.

What is held is read at most once and written at most once, whatever comes and goes meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from stoker.kernel.admission import Turnstile
from stoker.store.files import statements
from stoker.store.sqlite.library import Connection

_SQL = statements("stoker.store.sqlite.sql", "meters.sql")


class Meters:
    """What one transaction knows of meters, and does to them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stored: dict[tuple[int, str], int] = {}
        self._moved: dict[tuple[int, str], int] = {}
        self._known_whole: set[int] = set()

    def add(self, queue: int, meter: str, units: int) -> None:
        """Somebody takes units, or gives them back."""
        spot = (queue, meter)
        self._moved[spot] = self._moved.get(spot, 0) + units

    def used(self, queue: int, meter: str) -> int:
        """The units that are held now."""
        spot = (queue, meter)
        return self._read(spot) + self._moved.get(spot, 0)

    def _read(self, spot: tuple[int, str]) -> int:
        stored = self._stored.get(spot)
        if stored is None:
            if spot[0] in self._known_whole:
                return 0
            stored = self._stored[spot] = self._connection.execute(_SQL["use"], spot).get or 0
        return stored

    def read_all(self, queue: int, most: int) -> None:
        """Read what every meter of a queue says at once, unless they are more than so many."""
        if queue in self._known_whole:
            return
        rows = self._connection.execute(_SQL["all_use"], (queue, most + 1)).fetchall()
        if len(rows) <= most:
            self._known_whole.add(queue)
            for meter, used in cast("list[tuple[str, int]]", rows):
                self._stored[queue, meter] = used

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
        held: list[tuple[int, str, int]] = []
        let_go: list[tuple[int, str]] = []
        for spot, units in sorted(self._moved.items()):
            if units:
                used = self._stored[spot] = self._read(spot) + units
                held.append((*spot, used)) if used else let_go.append(spot)
        self._moved.clear()
        self._for_all("write_use", held)
        self._for_all("drop_use", let_go)

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
