"""The table of topics: each a small function from a message to what is to be done.

Everything a message needs is looked at here, before anything is written. Names of topics are
without the namespace.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stoker.desk.push import Post
from stoker.doors.stdio.intents import Add, Deed, Delete, Idle, Intent, Listing, Said, Tick
from stoker.doors.stdio.wire import Message, Payload, Unreadable, moment
from stoker.doors.stdio.words import new_job, text

logger = logging.getLogger("stoker.stdio")

_USUAL = object()
_WORKER_TOPIC = re.compile(r"job_queue/workers/(\w{8}-\w{4}-\w{4}-\w{4}-\w{12})/(\w+)")


class Circumstances(NamedTuple):
    """What one needs to know to read a message."""

    namespace: str
    expiry: int
    """How long a silent worker is remembered, in microseconds."""
    now: int


class Letter(NamedTuple):
    """A message with its payload, and the circumstances in which it came."""

    message: Message
    fields: Payload
    around: Circumstances


Topic = Callable[[Letter], Intent]


def intent_of(message: Message, around: Circumstances) -> Intent:
    """What a message comes down to; raises Unreadable for what cannot be served."""
    topic = message.topic.removeprefix(f"{around.namespace}/")
    if topic == message.topic:
        raise Unreadable(f"unknown topic {topic!r}: its namespace is not {around.namespace!r}")
    if topic == "tick":
        return Tick()  # whatever its payload is
    serve = TOPICS.get(topic) or _worker_topic(message, topic)
    return serve(Letter(message, message.fields(), around))


def _worker_topic(message: Message, topic: str) -> Topic:
    match = _WORKER_TOPIC.fullmatch(topic)
    if match is None or match[2] not in WORKER_TOPICS:
        raise Unreadable(f"unknown topic {topic!r}")
    if match[1] != message.service_uuid:
        logger.warning(
            "topic and sender name different workers, %s and %s; the sender counts",
            match[1],
            message.service_uuid,
        )
    return WORKER_TOPICS[match[2]]


# -- from creators -------------------------------------------------------------------------


def _add_job(letter: Letter) -> Intent:
    fields = letter.fields
    if "jobs" not in fields:
        return Add([new_job(fields, bytes(letter.message.payload))])
    listed = fields["jobs"]
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise Unreadable("jobs must be a list of objects")
    return Add([new_job({"uuid": each.get("id"), **each}) for each in listed])


def _del_job(letter: Letter) -> Intent:
    queue = text(letter.fields, "queue_name") if "queue_name" in letter.fields else None
    return Delete(text(letter.fields, "uuid"), queue)


def _list(letter: Letter) -> Intent:
    fields = letter.fields
    return Listing(
        letter.message.topic.rpartition("/")[2],
        text(fields, "queue_name"),
        letter.message.service_uuid,
        _bound(fields.get("later_than", _USUAL), letter.around.now - letter.around.expiry),
        _bound(fields.get("earlier_than", _USUAL), None),
    )


def _bound(value: Any, usual: int | None) -> int | None:
    """A bound in time; one that cannot be read is none."""
    if value is _USUAL:
        return usual
    try:
        return moment(value, "bound")
    except Unreadable:
        return None


# -- from workers --------------------------------------------------------------------------


def _worker_idle(letter: Letter) -> Intent:
    at, seen = _times(letter)
    return Idle(_post(letter), at, seen)


def _lease_job(letter: Letter) -> Intent:
    at, seen = _times(letter)
    return Idle(_post(letter), at, seen, asks=True)


def _job_accepted(letter: Letter) -> Intent:
    moment(text(letter.fields, "started_at"), "started_at")
    return _said(letter, Deed.ACCEPTED)


def _worker_progress(letter: Letter) -> Intent:
    return _said(letter, Deed.WORKS)


def _job_finished(letter: Letter) -> Intent:
    if letter.fields.get("finished_at") is not None:
        moment(letter.fields["finished_at"], "finished_at")
    return _said(letter, Deed.FINISHED)


def _complete_job(letter: Letter) -> Intent:
    if letter.message.created_at is not None:
        return _said(letter, Deed.FINISHED)
    return Said(
        _post(letter),
        text(letter.fields, "uuid"),
        Deed.FINISHED,
        letter.around.now,
        letter.around.now,
        letter.fields,
    )


def _said(letter: Letter, deed: Deed) -> Said:
    post, uuid = _post(letter), text(letter.fields, "uuid")
    at, seen = _times(letter)
    return Said(post, uuid, deed, at, seen, letter.fields, _fraction(letter.fields))


def _post(letter: Letter) -> Post:
    worker = letter.message.service_uuid
    if not worker:
        raise Unreadable("service_uuid is missing: whose word is it?")
    return Post(worker, text(letter.fields, "queue_name"))


def _times(letter: Letter) -> tuple[int, int]:
    if letter.message.created_at is None:
        raise Unreadable("created_at is missing")
    at = moment(letter.message.created_at, "created_at")
    return at, min(at, letter.around.now)


def _fraction(fields: Payload) -> float | None:
    """How much is done, from wherever it is told."""
    told = fields.get("progress")
    if told is None:
        told = fields.get("status")
        told = told.get("progress") if isinstance(told, dict) else None
    elif isinstance(told, dict):
        told = told.get("progress")
    if told is None:
        return None
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told <= 1:
        logger.warning("progress must be a number from 0 to 1, not %r: it is ignored", told)
        return None
    return float(told)


_LISTINGS = (
    "list_job_queue",
    "list_queue_jobs",
    "list_worker_queue",
    "list_queue_workers",
    "list_leased_queue",
    "list_queue_dispatched",
    "list_progress_queue",
    "list_queue_progress",
)

TOPICS: Mapping[str, Topic] = {
    "job_queue/add_job": _add_job,
    "job_queue/lease_job": _lease_job,
    "job_queue/request_job": _lease_job,
    "job_queue/complete_job": _complete_job,
    "job_queue/worker_idle": _worker_idle,
    "job_queue/worker_busy": _worker_progress,
    "job_queue/worker_progress": _worker_progress,
    "job_queue/del_job": _del_job,
    "del_job": _del_job,
    **{f"job_queue/{name}": _list for name in _LISTINGS},
    **dict.fromkeys(_LISTINGS, _list),
}

WORKER_TOPICS: Mapping[str, Topic] = {
    "worker_idle": _worker_idle,
    "job_accepted": _job_accepted,
    "job_finished": _job_finished,
    "worker_busy": _worker_progress,
    "worker_progress": _worker_progress,
}
"""Those under `job_queue/workers/<worker>/`."""
