"""What is kept of a throttler between two questions: a note beside the jobs of its queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from stoker.kernel.change import Change, NoteWrite
from stoker.kernel.job import QUEUED, Job
from stoker.store import Store

_NOTE = "throttler:"


class Aside(NamedTuple):
    """A job that stands aside, so that others behind it can start."""

    due_at: int
    """Its own due time, which is its place in line."""
    until: int
    """Its due time in the store for now. Nobody has to bring it back: it falls due by itself."""
    rank: int = 0


class Memory(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered."""

    state: Any = None
    aside: Mapping[int, Aside] = {}
    reasons: Mapping[int, str] = {}
    """Why jobs are held, as far as that was said."""
    behind: tuple[int, int, int] | None = None
    """Where to go on asking, if there were more than could be asked about at once: behind this
    rank, due time and id."""
    error: str | None = None
    """What went wrong the last time it was asked."""

    def own_due_at(self, job: Job) -> int:
        """When the job is due, be it aside or not."""
        aside = self.aside.get(job.id)
        moved = aside is None or job.state is not QUEUED or job.due_at != aside.until
        return job.due_at if moved or aside is None else aside.due_at


_DECODER = msgspec.json.Decoder(Memory)


UNREADABLE = "what was remembered of it cannot be read and is given up, its state included"


def recall(store: Store, queue: str) -> tuple[Memory, int]:
    """What is remembered, and its revision. What cannot be read is as good as forgotten: else it
    would stop the queue for ever."""
    note = store.notes([_NOTE + queue]).get(_NOTE + queue)
    if note is None:
        return Memory(), 0
    try:
        return _DECODER.decode(note.value), note.revision
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Memory(error=f"{UNREADABLE}: {error}"), note.revision


def remember(queue: str, memory: Memory, revision: int) -> Change:
    """The Change that remembers this, if nobody else has remembered anything since."""
    value = msgspec.json.encode(memory)
    return Change(notes=(NoteWrite(_NOTE + queue, value, expect=revision),))
