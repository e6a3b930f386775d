"""Which changes of a batch go the short way, and which the long one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from stoker.kernel.change import Change
from stoker.store.postgres.lean import (
    Arrivals,
    Ending,
    arrivals_of,
    endings_of,
    only_inserts,
    settling,
)
from stoker.store.postgres.stage import touched


class Plan:
    """A batch, sorted. Changes that have nothing to do with one another may change their order."""

    def __init__(self, changes: Sequence[Change], *, at_length: bool = False) -> None:
        self.changes = changes
        self.arrivals: Arrivals | None = None
        self.inserting: list[int] = []
        """The changes whose jobs arrive the short way, by their numbers; so are all here."""
        self.rest: list[int] = []
        ending: dict[int, list[Ending]] = {}
        for number, change in enumerate(changes):
            ends = None if at_length else endings_of(change)
            if at_length:
                self.rest.append(number)
            elif ends is not None:
                ending[number] = ends
            elif only_inserts(change):
                self.inserting.append(number)
            else:
                self.rest.append(number)
        self._arrive()
        self._stay(_entangled(ending, [changes[number] for number in self.rest]))
        self.ends = settling(
            [end for number, ends in ending.items() if number not in self.rest for end in ends]
        )
        """The routines that end jobs, and what they are told."""

    def _arrive(self) -> None:
        """New jobs go the same way all of them, for their ids are in order."""
        rest = [self.changes[number] for number in self.rest]
        if self.inserting and not any(change.inserts or change.queues for change in rest):
            self.arrivals = arrivals_of([self.changes[number] for number in self.inserting])
        if self.arrivals is None:
            self._stay(self.inserting)
            self.inserting = []

    def _stay(self, numbers: Iterable[int]) -> None:
        self.rest = sorted({*self.rest, *numbers})


def _entangled(ending: dict[int, list[Ending]], rest: Sequence[Change]) -> list[int]:
    """Changes that end a job which others speak of too, or whose name others may want."""
    often = Counter([end.job.id for ends in ending.values() for end in ends])
    if not rest and len(often) == often.total():
        return []
    ids = touched(rest)
    return [
        number
        for number, ends in ending.items()
        if any(often[end.job.id] > 1 or end.job.id in ids for end in ends)
        or (rest and any(end.job.unique_key is not None or end.job.ref is not None for end in ends))
    ]
