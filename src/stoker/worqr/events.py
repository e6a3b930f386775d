"""What peers tell each other.

Events travel as rings, with the very commit they tell of. One that is too long for a ring leaves
its message in a note for a while.
"""

from __future__ import annotations

import base64
import enum
import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import msgspec

from stoker.kernel.change import Change, Note, NoteWrite
from stoker.kernel.in_json import json_of
from stoker.worqr.forms import Task

_MARK = "~worqr"
_LONGEST = 500
_KEPT = 60 * 1_000_000


class EventType(enum.StrEnum):
    """What an event tells of."""

    WORK = "work"
    """Tasks wait: `count` of them came, or are there."""
    DONE = "done"
    """A task was finished, by whomever."""
    CANCEL = "cancel"
    """A task is not wanted any more: whoever works on it should finish it."""
    DELETE = "delete"
    """All waiting tasks of the queue were dropped."""
    FAILED = "failed"
    """This peer's worker was taken for dead; its tasks are no longer its own. Start it again."""
    ERROR = "error"
    """The store could not be reached."""
    DEBUG = "debug"
    """In debug mode: for how long which process has been running, in milliseconds."""


class Done(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which task was finished, by whom, and with what result, if it had one."""

    worker_id: str
    task: str
    result: Any = msgspec.UNSET
    encoding: str | None = None
    """`base64`, if the task is bytes."""

    @property
    def content(self) -> Task:
        """The task as it was enqueued."""
        return base64.b64decode(self.task) if self.encoding else self.task


class Event(msgspec.Struct, frozen=True):
    """Something that happened at a queue, or to this peer itself (`queue` is None).

    >>> Event("mail", EventType.WORK, "3").count
    3
    """

    queue: str | None
    type: EventType
    message: Task = ""

    @property
    def count(self) -> int:
        """Of `work`: how many tasks."""
        return int(self.message)

    @property
    def done(self) -> Done:
        """Of `done`: what was done."""
        return msgspec.json.decode(self.message, type=Done)


def done_message(worker_id: str, task: Task, result: Any) -> str:
    """The message of a `done`."""
    if isinstance(task, bytes):
        done = Done(worker_id, base64.b64encode(task).decode(), result, "base64")
    else:
        done = Done(worker_id, task, result)
    return json_of("the result", done).decode()


# -- on the wire ---------------------------------------------------------------------------


class _News(msgspec.Struct, frozen=True, array_like=True):
    order: int
    queue: str
    type: EventType
    message: str = ""
    raw: bool = False
    """The message is base64 of bytes."""
    kept: bool = False
    """The message is the key of the note that has it."""


_NEWS = msgspec.json.Decoder(_News)


def news(queue: str, type_: EventType, message: Task = "", *, clock: Callable[[], int]) -> Change:
    """What is to be committed so that all peers hear of an event; the queue's name is whole."""
    raw = isinstance(message, bytes)
    text = base64.b64encode(message).decode() if isinstance(message, bytes) else message
    order = time.time_ns()
    if len(text) <= _LONGEST:
        return Change(rings=(_ring(_News(order, queue, type_, text, raw)),))
    key = f"worqr:news:{uuid4().hex}"
    note = NoteWrite(key, text.encode(), until=clock() + _KEPT)
    return Change(notes=(note,), rings=(_ring(_News(order, queue, type_, key, raw, kept=True)),))


def _ring(news: _News) -> str:
    return _MARK + msgspec.json.encode(news).decode()


class Heard(msgspec.Struct, frozen=True):
    """Events from rings, with whole names of queues, some of whose messages are in notes."""

    news: list[_News]
    rest: set[str]
    """Rings that are no events."""

    @property
    def notes(self) -> list[str]:
        """The notes that are needed."""
        return [each.message for each in self.news if each.kept]

    def events(self, notes: Mapping[str, Note]) -> list[Event]:
        """What happened, in order; a note that is gone takes its event with it."""
        found = []
        for each in self.news:
            text = each.message
            if each.kept:
                if text not in notes:
                    continue
                text = notes[text].value.decode()
            message = base64.b64decode(text) if each.raw else text
            found.append(Event(each.queue, each.type, message))
        return found


def read(rings: set[str]) -> Heard:
    """Tell events from other rings."""
    rest, told = set(), []
    for ring in rings:
        if ring.startswith(_MARK):
            try:
                told.append(_NEWS.decode(ring.removeprefix(_MARK)))
            except msgspec.MsgspecError:
                continue  # by another version, or no peer at all
        else:
            rest.add(ring)
    return Heard(sorted(told, key=lambda news: news.order), rest)
