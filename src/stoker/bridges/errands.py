"""What is done with a message: it answers a job that waits, or becomes one itself."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stoker.bridges.message import Message, document
from stoker.desk import Desk, Twin
from stoker.errors import BadInput
from stoker.kernel.job import Job

Errand = Callable[[Message], str]
"""Says in one word what came of a message; BadInput: it is of no use, now or ever."""

KeyOf = Callable[[Message], str]


def answering(desk: Desk, key_of: KeyOf, *, prefix: str = "", text: bool = False) -> Errand:
    """Each message is the answer for the job that waits for its key."""

    def answer(message: Message) -> str:
        key = prefix + key_of(message)
        body = _quoted(message) if text else _checked(message)
        return desk.control.reply(key, body, once=message.once).value

    return answer


def enqueuing(desk: Desk, task: str, queue: str) -> Errand:
    """Each message is the payload of a new job; one that comes again is the job that is there."""

    def enqueue(message: Message) -> str:
        job = Job(queue, task, _checked(message), ref=message.once)
        placed = desk.intake.enqueue(job, twin=Twin.RETURN)
        return "enqueued" if placed.fresh else "repeated"

    return enqueue


def _checked(message: Message) -> bytes:
    document(message)
    return message.body


def _quoted(message: Message) -> bytes:
    try:
        return msgspec.json.encode(message.body.decode())
    except UnicodeDecodeError as error:
        raise BadInput(f"its body is no text: {error}") from error
