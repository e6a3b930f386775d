"""Lines into messages, messages into lines; no streams here.

One JSON object a line, in UTF-8. What cannot be read is an `Unreadable`, whose text is for the log.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from stoker.errors import BadInput
from stoker.kernel.zones import END, FIRST, moment_of

LONGEST_LINE = 64 * 2**20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1_000_000
_NOTHING = msgspec.Raw(b"")

T = TypeVar("T")
Payload = dict[str, Any]


class Unreadable(BadInput):
    """A line that is no message, or lacks something; the text says what."""


class Lines:
    r"""Takes bytes as they come and gives the lines that are complete.

    A line longer than `longest` is cut off there, and hence no JSON any more.

    >>> lines = Lines()
    >>> lines.feed(b'{"topic"'), lines.feed(b': 1}\r\n\n{"to')
    ([], [b'{"topic": 1}', b''])
    >>> lines.rest()
    [b'{"to']
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._begun: list[bytes] = []
        self._length = 0

    def feed(self, data: bytes) -> list[bytes]:
        """What came in; gives the lines that it ends."""
        first, *others = data.split(b"\n")
        self._go_on(first)
        if not others:
            return []
        ended = [self._end(), *others[:-1]]
        self._go_on(others[-1])
        return [line.strip() for line in ended]

    def rest(self) -> list[bytes]:
        """Nothing more will come: the line that was not ended, if there is one."""
        line = self._end().strip()
        return [line] if line else []

    def _go_on(self, part: bytes) -> None:
        kept = part[: self._longest - self._length]
        if kept:
            self._begun.append(kept)
            self._length += len(kept)

    def _end(self) -> bytes:
        line = b"".join(self._begun)
        self._begun, self._length = [], 0
        return line


class Message(msgspec.Struct, frozen=True):
    """One message. Its payload is read by whoever knows the topic."""

    topic: str
    payload: msgspec.Raw = _NOTHING
    service_uuid: str | None = None
    created_at: str | None = None

    def fields(self) -> Payload:
        """The payload, which has to be an object."""
        if not bytes(self.payload):
            raise Unreadable("the message has no payload")
        fields = _decoded(_ANYTHING, self.payload)
        if not isinstance(fields, dict):
            raise Unreadable("the payload is no object")
        return fields


_MESSAGE = msgspec.json.Decoder(Message)
_ANYTHING: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def read(line: bytes) -> Message:
    """The message on a line.

    >>> read(b'{"topic": "default/tick"}').topic
    'default/tick'
    """
    if not line:
        raise Unreadable("the line is blank")
    if not line.isascii():
        _check_utf8(line)
    return _decoded(_MESSAGE, line)


def _check_utf8(line: bytes) -> None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"the line is no UTF-8: {error.reason} at byte {error.start}") from None


def _decoded(decoder: msgspec.json.Decoder[T], text: bytes | msgspec.Raw) -> T:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise Unreadable(str(error)) from None
    except msgspec.DecodeError as error:
        raise Unreadable(f"json_parse_error: {error}") from None
    except RecursionError:
        raise Unreadable("json_parse_error: nested too deeply") from None


# -- times ---------------------------------------------------------------------------------


def moment(text: object, name: str) -> int:
    """A time in ISO 8601, in microseconds; without a zone it is UTC.

    >>> moment("1970-01-01T00:00:01.5Z", "created_at")
    1500000
    """
    try:
        at = datetime.fromisoformat(text)  # type: ignore[arg-type]
        if at.tzinfo is None:
            at = at.replace(tzinfo=UTC)
        reckoned = moment_of(at)
    except (TypeError, ValueError, OverflowError):
        raise Unreadable(f"{name} is {text!r}, which is no time in ISO 8601") from None
    if not FIRST <= reckoned < END:
        raise Unreadable(f"{name} is {text!r}, which is out of all reckoning")
    return reckoned


def stamp(at: int) -> str:
    """A moment as it is written.

    >>> stamp(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    return f"{_second(at // _SECOND)}.{at % _SECOND:06d}Z"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()


# -- messages out --------------------------------------------------------------------------


class Letterhead:
    """What all our messages have in common.

    >>> head = Letterhead("default", "1-2-3", "job_queue", "host")
    >>> head.line("job_queue/hello", b"{}", 0)  # doctest: +ELLIPSIS
    b'{"topic":"default/job_queue/hello","service_uuid":"1-2-3",...,"payload":{}}\\n'
    """

    def __init__(self, namespace: str, uuid: str, name: str, host: str) -> None:
        self._namespace = namespace
        sender = {"service_uuid": uuid, "service_name": name, "service_host": host}
        self._sender = msgspec.json.encode(sender)[1:-1]

    def line(self, topic: str, payload: bytes, now: int) -> bytes:
        """A message, ready to be written; the payload is JSON already."""
        return b'{"topic":%b,%b,"created_at":"%b","payload":%b}\n' % (
            msgspec.json.encode(f"{self._namespace}/{topic}"),
            self._sender,
            stamp(now).encode(),
            payload,
        )
