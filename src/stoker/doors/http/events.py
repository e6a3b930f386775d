"""The event stream: what becomes of jobs and queues, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from stoker.doors.http.answers import EVENTS, Stream
from stoker.doors.http.endpoint import Call, Operation
from stoker.doors.http.numbers import number
from stoker.doors.http.observer import Event
from stoker.doors.http.problems import TooMany
from stoker.doors.http.register import Scope
from stoker.errors import BadInput
from stoker.kernel.glob import check_pattern

_MOST_JOBS = 1000
_MOST_PATTERNS = 100
_BEGIN = b"retry: 2000\n\n"
_NOTHING_NEW = b": still here\n\n"


class Subjects(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of which jobs (by id) and queues (GLOB patterns) to tell; by default of all queues.

    `after` is the id of the last event heard of, as the header Last-Event-ID. `once`: tell how
    things are, and end.
    """

    job: list[str] = []
    queue: list[str] = []
    after: str | None = None
    once: bool = False


async def listen(call: Call) -> Stream:
    """Tell what changes, until somebody hangs up."""
    asked: Subjects = call.query
    observer = call.office.observer
    if observer.count >= call.office.settings.streams:
        raise TooMany(f"{observer.count} streams are open, more are not allowed")
    if len(asked.job) > _MOST_JOBS or len(asked.queue) > _MOST_PATTERNS:
        raise BadInput(f"name {_MOST_JOBS} jobs and {_MOST_PATTERNS} queues at most")
    jobs = [number(text) for text in asked.job]
    queues = asked.queue or ([] if jobs else ["*"])
    for pattern in queues:
        check_pattern(pattern)
    after = asked.after or call.headers.get(b"last-event-id", b"").decode("latin-1")
    return Stream(_told(call, observer.events(jobs, queues, after)))


async def _told(call: Call, events: AsyncIterator[list[Event]]) -> AsyncIterator[bytes]:
    gate, id_of = call.office.gate, call.office.observer.id_of
    yield _BEGIN
    async for news in events:
        if not gate.still_admits(call.headers, _SCOPES):
            return
        yield b"".join(_message(id_of(each), each) for each in news) or _NOTHING_NEW
        if call.query.once:
            return


def _message(event_id: str, event: Event) -> bytes:
    head = f"id: {event_id}\nevent: {event.kind}\n".encode()
    return b"%bdata: %b\n\n" % (head, event.data)


_SCOPES: tuple[Scope, ...] = ("enqueue", "work", "operate")

OPERATIONS = [
    Operation(
        *("GET", "/v1/events", listen, "What becomes of jobs and queues, as server-sent events"),
        scopes=_SCOPES,
        query=Subjects,
        headers={"Last-Event-ID": "The id of the last event that you have heard of."},
        answers={200: EVENTS},
    ),
]
