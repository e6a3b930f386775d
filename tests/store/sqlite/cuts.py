"""Power cuts: the files that each of them leaves, and what those find who open them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from stoker.store.clock import Clock
from tests.store.sqlite.disk import Create, Event, Mark, Platter, Sync, disk_in_use, restored
from tests.store.sqlite.witness import Contents, contents_found


class Cut(NamedTuple):
    """The files that one power cut leaves, and what was acknowledged up to it and just after."""

    at: int
    files: dict[str, bytes]
    past: list[Contents]
    next: Contents | None


def cuts_that_take_all_they_may(tape: list[Event]) -> Iterator[Cut]:
    """One for each state the disk was ever in, just before the next sync: cuts at any of the
    writes before it leave the same files, and fewer acknowledgements."""
    platter, history = Platter(), _History(tape)
    for place, event in enumerate(tape):
        if isinstance(event, Sync):
            yield history.cut(place, platter.left())
        platter.play(event)
        history.play(event)
    yield history.cut(len(tape), platter.left())


def cuts_that_take_what_they_like(
    tape: list[Event], survives: Callable[[bytes], bytes]
) -> Iterator[Cut]:
    """One before each event of all, with parts of what was on its way in place."""
    platter, history = Platter(), _History(tape)
    for place, event in enumerate(tape):
        if not isinstance(event, Mark | Create):
            yield history.cut(place, platter.left_by(survives))
        platter.play(event)
        history.play(event)


class _History:
    """The acknowledgements of a tape: what the store held after each, up to now."""

    def __init__(self, tape: list[Event]) -> None:
        self._all: list[Contents] = [event.what for event in tape if isinstance(event, Mark)]
        self._passed = 0

    def play(self, event: Event) -> None:
        self._passed += isinstance(event, Mark)

    def cut(self, place: int, files: dict[str, bytes]) -> Cut:
        following = self._all[self._passed : self._passed + 1]
        return Cut(place, files, self._all[: self._passed], following[0] if following else None)


def found_after(cut: Cut, folder: Path, clock: Clock) -> Contents:
    """What somebody finds who opens the file after the cut."""
    with restored(cut.files, folder) as path, disk_in_use():
        return contents_found(path, clock)


def is_whole(found: Contents, cut: Cut) -> bool:
    """Is it all that was acknowledged, perhaps with the commit that was under way?"""
    return found == cut.next or found == (cut.past[-1] if cut.past else NOTHING)


NOTHING: Contents = ([], [], [])
"""What a new file holds."""
