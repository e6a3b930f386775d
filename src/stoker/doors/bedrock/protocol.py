r"""The line protocol, bytes to requests and replies to bytes, without a socket.

    CreateJob                     the verb, in any case; what follows a space is ignored
    name: foo                     headers, names in any case
    data: {"path":"a\\b"}         values with backslashes doubled
    Content-Length: 0             how many bytes follow the empty line; they are skipped
                                  an empty line

Lines end with CRLF or LF. What is not a request, or too large for one, is a `Malformed`: nobody
can tell where the next one would begin, so the connection has to end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from stoker.doors.bedrock.refusals import BAD_REQUEST, TOO_LARGE, Refusal

_END = re.compile(rb"\n\r?\n")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_UNSAFE = re.compile(r"[\\\r\n\t]")
_UNSAFE_FORMS = {"\\": "\\\\", "\r": "\\r", "\n": "\\n", "\t": "\\t"}
_OVERLAP = 2  # so much of an end may have come with the bytes before


class Limits(NamedTuple):
    """How much one request may be."""

    head: int = 4 * 2**20
    """Bytes of the verb and the headers."""
    headers: int = 1000
    body: int = 64 * 2**20


class Malformed(Refusal):
    """What came is no request."""


class Request(NamedTuple):
    """One request. Names of headers are in lower case."""

    verb: str
    rest: str
    """What stands behind the verb on its line."""
    headers: Mapping[str, str]


class Parser:
    """Takes bytes as they come and gives requests, in order.

    >>> parser = Parser()
    >>> parser.feed(b"Ping\\r\\n\\r\\nGetJob\\nNAME: foo\\n")
    >>> parser.next_request().verb, parser.next_request()
    ('ping', None)
    >>> parser.feed(b"\\n")
    >>> parser.next_request().headers
    {'name': 'foo'}
    """

    def __init__(self, limits: Limits = Limits()) -> None:  # noqa: B008 - never changed
        self._limits = limits
        self._buffer = bytearray()
        self._scanned = 0
        self._request: Request | None = None
        self._body_left = 0

    @property
    def held(self) -> int:
        """Bytes in hand that are not yet part of a request given out."""
        return len(self._buffer)

    @property
    def midway(self) -> bool:
        """Has a request begun that is not whole?"""
        return self._request is not None or bool(self._buffer.strip(b"\r\n"))

    def feed(self, data: bytes) -> None:
        """What came in."""
        self._buffer += data

    def next_request(self) -> Request | None:
        """The next request, if all of it is there."""
        if self._request is None:
            head = self._next_head()
            if head is None:
                return None
            self._request = _read_head(head, self._limits)
            self._body_left = _body_length(self._request.headers, self._limits)
        skipped = min(self._body_left, len(self._buffer))
        del self._buffer[:skipped]
        self._body_left -= skipped
        if self._body_left:
            return None
        request, self._request = self._request, None
        return request

    def _next_head(self) -> bytes | None:
        buffer = self._buffer
        if buffer[:1] in b"\r\n":
            del buffer[: len(buffer) - len(buffer.lstrip(b"\r\n"))]
            self._scanned = 0
        end = _END.search(buffer, self._scanned)
        if (len(buffer) if end is None else end.start()) > self._limits.head:
            raise Malformed(TOO_LARGE)
        if end is None:
            self._scanned = max(len(buffer) - _OVERLAP, 0)
            return None
        head = bytes(buffer[: end.start()])
        del buffer[: end.end()]
        self._scanned = 0
        return head


def _read_head(head: bytes, limits: Limits) -> Request:
    text = head.removesuffix(b"\r").replace(b"\r\n", b"\n").decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    if len(lines) > limits.headers + 1:
        raise Malformed(TOO_LARGE, f"at most {limits.headers} headers")
    verb, _, rest = lines[0].partition(" ")
    headers: dict[str, str] = {}
    name = ""
    for line in lines[1:]:
        if line[:1] in (" ", "\t"):
            headers[name] = headers.get(name, "") + line  # the line before goes on
            continue
        before, colon, value = line.partition(":")
        if colon:
            name = before.strip().lower()
            headers[name] = value
    return Request(verb.lower(), rest, {name: _value(text) for name, text in headers.items()})


def _value(text: str) -> str:
    text = text.strip(" ")
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_unescaped, text)
    # Halves of a pair of surrogates come as two escapes; together they are one character.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescaped(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return _CONTROLS.get(match[2], match[2])


def _body_length(headers: Mapping[str, str], limits: Limits) -> int:
    if "transfer-encoding" in headers:
        raise Malformed(BAD_REQUEST, "Transfer-Encoding is not understood; send Content-Length")
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit()):
        raise Malformed(BAD_REQUEST, "Content-Length is no number")
    if len(text) > 18 or int(text) > limits.body:
        raise Malformed(TOO_LARGE)
    return int(text)


class Reply(NamedTuple):
    """What is answered. `wrote`: the command came as far as the store."""

    status: str = "200 OK"
    body: bytes = b""
    headers: Mapping[str, str] = {}
    wrote: bool = False


def rendered(reply: Reply, facts: Mapping[str, str]) -> bytes:
    """A reply as it goes out, with facts about the server among its headers.

    Headers stand in the order of their names, in which the facts are given already.
    """
    headers = facts
    if reply.headers:
        all_ = {**facts, **{name: escaped(text) for name, text in reply.headers.items()}}
        headers = {name: all_[name] for name in sorted(all_, key=str.lower)}
    lines = "".join([f"{name}: {text}\r\n" for name, text in headers.items()])
    head = f"{reply.status}\r\n{lines}Content-Length: {len(reply.body)}\r\n\r\n"
    return head.encode("utf-8", "replace") + reply.body


def escaped(value: str) -> str:
    """A value that stays on its line."""
    return _UNSAFE.sub(lambda match: _UNSAFE_FORMS[match[0]], value)
