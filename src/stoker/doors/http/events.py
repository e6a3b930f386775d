"""The event stream: what becomes of jobs and queues, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from stoker.doors.http.answers import EVENTS, Stream
from stoker.doors.http.endpoint import Call, Operation
from stoker.doors.http.numbers import number
from stoker.doors.http.observer import Event, Observer
from stoker.doors.http.problems import TooMany
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
    return Stream(_told(observer, observer.events(jobs, queues, after), once=asked.once))


async def _told(
    observer: Observer, events: AsyncIterator[list[Event]], *, once: bool
) -> AsyncIterator[bytes]:
    yield _BEGIN
    async for news in events:
        yield b"".join(_message(observer.id_of(each), each) for each in news) or _NOTHING_NEW
        if once:
            return


def _message(event_id: str, event: Event) -> bytes:
    head = f"id: {event_id}\nevent: {event.kind}\n".encode()
    return b"%bdata: %b\n\n" % (head, event.data)


OPERATIONS = [
    Operation(
        *("GET", "/v1/events", listen, "What becomes of jobs and queues, as server-sent events"),
        scopes=("enqueue", "work", "operate"),
        query=Subjects,
        headers={"Last-Event-ID": "The id of the last event that you have heard of."},
        answers={200: EVENTS},
    ),
]
