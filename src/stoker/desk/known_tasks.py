"""Which tasks workers know: told in notes beside their sessions.

A session is written with every beat, so it has no more than the mark of a note. All who know the
same tasks share one: a fleet of a hundred workers keeps a single list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from stoker.desk.clerk import Clerk
from stoker.kernel.change import Change, NoteWrite
from stoker.store import Store

_NOTE = "tasks:"
MOST_TOLD = 64 * 1024
"""Longer lists are not told, in bytes: of such a worker nobody can say what it knows."""
KEPT_FOR = 2 * 86_400_000_000
"""So long a list is there after it was told; who still works tells it again before."""

Known = Mapping[str, frozenset[str]]
"""The names of tasks, by the mark of the list."""


def unknown_here(name: str) -> str:
    """What becomes of a job's error if the worker that took it does not know its task."""
    return f"no task called {name!r} is known to the worker that took it"


def tell(clerk: Clerk, names: Iterable[str]) -> str | None:
    """Let everybody know the names of the tasks that a worker knows: the mark of the list, None if
    it is too long."""
    text = msgspec.json.encode(sorted(names))
    if len(text) > MOST_TOLD:
        return None
    mark = hashlib.sha256(text).hexdigest()[:16]
    note = NoteWrite(_NOTE + mark, text, until=clerk.store.now() + KEPT_FOR)
    clerk.transact([Change(notes=(note,))])
    return mark


def recall(store: Store, marks: Iterable[str | None]) -> Known:
    """The lists with these marks; one that is gone is missing."""
    keys = sorted({_NOTE + mark for mark in marks if mark is not None})
    notes = store.notes(keys) if keys else {}
    return {
        key.removeprefix(_NOTE): frozenset(msgspec.json.decode(note.value, type=list[str]))
        for key, note in notes.items()
    }
