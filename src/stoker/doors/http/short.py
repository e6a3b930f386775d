"""The short way: a request for one new job is served without a task, and without ASGI.

Such requests come by the thousand, and what surrounds each on the long way costs more than the job.
Whoever asks for anything else goes the long way, and so does whoever is to be refused: there it is
said what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from http import HTTPStatus

from starlette.types import Scope

from stoker.desk import Placement
from stoker.doors.http.answers import Answer
from stoker.doors.http.endpoint import LARGE, Operation, Reader, Short, refusal
from stoker.doors.http.gate import Headers
from stoker.doors.http.office import Office
from stoker.kernel.job import Job

Done = Callable[[Answer], None]

_LONG = (b"idempotency-key", b"expect", b"transfer-encoding")
"""Headers that ask for more than a new job."""


class ShortWay:
    """One operation, for requests that ask for nothing unusual."""

    def __init__(self, office: Office, operation: Operation, short: Short) -> None:
        self._office = office
        self._operation = operation
        self._short = short
        self._reader = Reader(operation)
        self._largest = min(LARGE - 1, office.settings.largest_body)

    def fits(self, headers: Headers) -> bool:
        """May the rest of such a request be waited for here? It is short, and of known length."""
        length = headers.get(b"content-length", b"")
        return (
            length.isdigit()
            and int(length) <= self._largest
            and not any(name in headers for name in _LONG)
        )

    def serve(self, headers: Headers, raw: bytes, done: Done) -> bool:
        """Take in the job, and tell `done` the answer; False: nothing was done, and it is a matter
        for the long way."""
        office = self._office
        try:
            job = self._short.read(self._reader.body(raw), office.desk.store.now())
            if job is None:
                return False
            office.gate.admit(headers, self._operation.scopes)
        except Exception:  # noqa: BLE001 - whatever it is, the long way tells it
            return False
        office.take_in(job, partial(self._answer, job, done))
        return True

    def _answer(self, job: Job, done: Done, placed: Placement | BaseException) -> None:
        if isinstance(placed, BaseException):
            done(refusal(placed, jobber=self._operation.jobber))
        else:
            done(self._short.answer(job, placed))


class ShortWays:
    """Which requests have a short way."""

    def __init__(self, office: Office, operations: Iterable[Operation]) -> None:
        self._ways = {
            (each.method, each.path): ShortWay(office, each, each.short)
            for each in operations
            if each.short is not None
        }

    def of(self, scope: Scope) -> ShortWay | None:
        """The one for a request, if it has one."""
        if scope["query_string"]:
            return None
        return self._ways.get((scope["method"], scope["path"]))


def written(answer: Answer, more: Iterable[tuple[bytes, bytes]], *, last: bool) -> bytes:
    """An answer as it is sent; `last`: nothing follows on its connection."""
    lines = [_first_line(answer.status)]
    lines += [b"%b: %b\r\n" % line for line in (*more, *answer.lines())]
    if last:
        lines.append(b"connection: close\r\n")
    return b"".join((*lines, b"\r\n", answer.body))


@lru_cache
def _first_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
