"""One path of the door: from a request to its answer, whatever the operation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs, unquote_to_bytes

import msgspec
from starlette.types import Receive, Scope, Send

from stoker.desk import Placement
from stoker.doors.http.answers import EVENTS, PROBLEM, Answer, Stream
from stoker.doors.http.gate import Caller, Headers
from stoker.doors.http.numbers import read_number
from stoker.doors.http.office import Office
from stoker.doors.http.once import fingerprint_of
from stoker.doors.http.problems import (
    ClientGone,
    NoSuchMethod,
    NoSuchRoute,
    TooLarge,
    TooMany,
    problem_of,
)
from stoker.doors.http.register import Scope as TokenScope
from stoker.errors import BadInput
from stoker.kernel.job import Job

R = TypeVar("R")

LONGEST_KEY = 255
LARGE = 64 * 2**10
"""From so many bytes on, reading would keep others waiting: it is done in a thread."""
_STREAM = Answer(200, media=EVENTS)

NOBODY = Caller("", frozenset())
"""Who asks where nobody is asked."""


class Call(NamedTuple):
    """One request, understood."""

    office: Office
    caller: Caller
    headers: Headers
    path: Mapping[str, Any]
    query: Any
    body: Any
    once: str | None
    """If it has an Idempotency-Key: a UUID, by which what is made for it is known again."""
    receive: Receive
    raw: bytes
    """The body as it was sent."""


Handler = Callable[[Call], Awaitable[Answer | Stream]]


class Short(NamedTuple):
    """How a request that asks for one new job and nothing else is served in few steps."""

    read: Callable[[Any, int], Job | None]
    """From its body and the moment: the job; None if more is asked for."""
    answer: Callable[[Job, Placement], Answer]


class Operation(NamedTuple):
    """What can be asked for: as it is served, and as it is told in the OpenAPI page."""

    method: str
    path: str
    handler: Handler
    summary: str
    scopes: tuple[TokenScope, ...] = ()
    """One of these is needed; none: anybody may."""
    body: Any = None
    query: type[msgspec.Struct] | None = None
    answers: Mapping[int, Any] = {200: None}
    """By status, what an answer holds: a type, None for nothing, or a kind of media."""
    problems: tuple[str, ...] = ()
    """The codes of `problems.KINDS` that are its own."""
    headers: Mapping[str, str] = {}
    """Headers that it heeds besides, and what for."""
    once: bool = False
    """Does it heed Idempotency-Key?"""
    jobber: bool = False
    """Is it one of Jobber's or Walrus's?"""
    short: Short | None = None
    """Has it a short way, too?"""


class Endpoint:
    """All operations of one path."""

    def __init__(self, office: Office, operations: Sequence[Operation]) -> None:
        self._office = office
        self._operations = {each.method: each for each in operations}
        self._readers = {each.method: Reader(each) for each in operations}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        operation = self._operations.get(method)
        answer: Answer | Stream
        try:
            if operation is None:
                raise NoSuchMethod(f"{scope['method']} is not possible here")
            answer = await self._serve(operation, scope, receive)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            answer = self._refusal(error, operation)
        with_body = scope["method"] != "HEAD"
        if isinstance(answer, Stream) and with_body:
            await _pour(answer, receive, send)
        else:
            start = _STREAM if isinstance(answer, Stream) else answer
            await _send(start, send, with_body=with_body)

    async def _serve(self, operation: Operation, scope: Scope, receive: Receive) -> Answer | Stream:
        office = self._office
        headers: Headers = dict(scope["headers"])
        caller = office.gate.admit(headers, operation.scopes) if operation.scopes else NOBODY
        _check_path(scope)
        reader = self._readers[operation.method]
        raw = await self._body(headers, receive) if operation.body is not None else b""
        call = Call(
            office,
            caller,
            headers,
            scope["path_params"],
            reader.query(scope["query_string"]),
            reader.body(raw) if len(raw) < LARGE else await office.run(reader.body, raw),
            None,
            receive,
            raw,
        )
        key = _key(operation, caller, headers)
        if key is None:
            return await operation.handler(call)
        said = (operation.method.encode(), scope["path"].encode(), scope["query_string"], raw)
        return await office.once.serve(
            key,
            fingerprint_of(*said),
            lambda mark: _answered(operation.handler(call._replace(once=mark))),
        )

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        settings = self._office.settings
        length = headers.get(b"content-length", b"0").decode("latin-1")
        size = read_number(length)
        if length.isdigit() and (size is None or size > settings.largest_body):
            raise TooLarge(f"a request may have {settings.largest_body:,} bytes at most")
        return await _read(receive, settings.largest_body)

    def _refusal(self, error: BaseException, operation: Operation | None) -> Answer:
        answer = refusal(error, jobber=operation is not None and operation.jobber)
        if not isinstance(error, NoSuchMethod):
            return answer
        allow = ("allow", ", ".join(self._operations))
        return msgspec.structs.replace(answer, headers=(*answer.headers, allow))


class Nowhere:
    """Where nothing is served."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Say so."""
        await _send(refusal(NoSuchRoute(f"{scope['path']} leads nowhere")), send)


def refusal(error: BaseException, *, jobber: bool = False) -> Answer:
    """The answer to what went wrong."""
    problem = problem_of(error)
    if jobber:
        problem = msgspec.structs.replace(problem, error=problem.detail)
    headers: dict[str, str] = {}
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    if problem.status in (429, 503) or problem.code in ("contended", "key_in_use"):
        headers["retry-after"] = str(error.seconds if isinstance(error, TooMany) else 1)
    if isinstance(error, TooLarge):
        headers["connection"] = "close"  # nobody wants the rest
    return Answer(problem.status, msgspec.json.encode(problem), PROBLEM, tuple(headers.items()))


async def _send(answer: Answer, send: Send, *, with_body: bool = True) -> None:
    await send(answer.start())
    await send({"type": "http.response.body", "body": answer.body if with_body else b""})


class Reader:
    """Reads what was said, as an operation understands it."""

    def __init__(self, operation: Operation) -> None:
        self._body = None if operation.body is None else msgspec.json.Decoder(operation.body)
        self._query = operation.query
        fields = () if self._query is None else msgspec.structs.fields(self._query)
        self._lists = {field.name for field in fields if isinstance(field.default_factory, type)}

    def body(self, raw: bytes) -> Any:
        """The body; none at all is as good as an empty object."""
        if self._body is None:
            return None
        try:
            if not raw.isascii():
                raw.decode()  # not looked at where a value is passed on as it is
            return self._body.decode(raw or b"{}")
        except (ValueError, RecursionError) as error:
            raise BadInput(f"the body cannot be used: {error}") from error

    def query(self, text: bytes) -> Any:
        """The query; a word that means nothing is an error."""
        if self._query is None:
            if text:
                raise BadInput("nothing can be said behind a ? here")
            return None
        try:
            said = parse_qs(
                text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=1000
            )
            words = {name: self._word(name, values) for name, values in said.items()}
            return msgspec.convert(words, self._query, strict=False)
        except ValueError as error:
            raise BadInput(f"what stands behind the ? cannot be used: {error}") from error

    def _word(self, name: str, values: list[str]) -> str | list[str]:
        if name in self._lists:
            return values
        if len(values) > 1:
            raise ValueError(f"`{name}` can be said once only")
        return values[0]


def _check_path(scope: Scope) -> None:
    """A path that is not UTF-8 has come with U+FFFD for what is wrong; that may also be meant."""
    if "\ufffd" in scope["path"]:
        try:
            unquote_to_bytes(scope.get("raw_path") or b"").decode()
        except ValueError as error:
            raise BadInput(f"the path is not UTF-8: {error}") from error


async def _read(receive: Receive, most: int) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body", False) or len(body) > most:
        parts, size = [body], len(body)
        while message.get("more_body", False) and size <= most:
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
        if size > most:
            raise TooLarge(f"a request may have {most:,} bytes at most")
        body = b"".join(parts)
    if message["type"] == "http.disconnect":
        raise BadInput("the request was not sent to its end")
    return body


def _key(operation: Operation, caller: Caller, headers: Headers) -> bytes | None:
    """What the Idempotency-Key of this caller comes down to, if there is one."""
    said = headers.get(b"idempotency-key")
    if said is None or not operation.once:
        return None
    key = said.decode("latin-1").strip()
    if not 0 < len(key) <= LONGEST_KEY:
        raise BadInput(f"an Idempotency-Key has 1 to {LONGEST_KEY} characters")
    return fingerprint_of(caller.name.encode(), key.encode())


async def _answered(answer: Awaitable[Answer | Stream]) -> Answer:
    given = await answer
    assert isinstance(given, Answer)  # a stream is no write
    return given


async def unless_gone(receive: Receive, work: Awaitable[R]) -> R:
    """Do something for a client for as long as it is there."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone("the client is gone")
        return task.result()
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _pour(stream: Stream, receive: Receive, send: Send) -> None:
    lines = [
        (b"content-type", EVENTS.encode()),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": lines})

    async def pour() -> None:
        async for chunk in stream.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    with suppress(ClientGone):
        await unless_gone(receive, pour())
