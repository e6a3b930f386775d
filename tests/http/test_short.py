"""The short way of a new job: nobody can tell it from the long one, but for its pace."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from stoker.desk import Desk
from stoker.doors.http.endpoint import Endpoint
from stoker.doors.http.register import Register
from stoker.doors.http.settings import Settings
from stoker.errors import StokerError
from stoker.kernel.job import Job
from stoker.store.memory import MemoryStore
from tests.http.client import PATIENCE, Answer, answer_on, opened
from tests.http.server import listening

SETTINGS = Settings(port=0, largest_body=100_000)
UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f-]{27}")

Request = tuple[str, bytes, dict[str, str]]

REQUESTS: dict[str, Request] = {
    "a job": ("/v1/jobs", b'{"queue":"q"}', {}),
    "a job with much said": (
        "/v1/jobs",
        b'{"queue":"q","name":"n","payload":{"a":[1]},"key":"k","delay":"5m","rank":3,"weight":2}',
        {},
    ),
    "a name of its own": ("/v1/jobs", b'{"queue":"q","unique_key":"u"}', {}),
    "the name again": ("/v1/jobs", b'{"queue":"q","unique_key":"u"}', {}),
    "the name again, and that is fine": (
        "/v1/jobs",
        b'{"queue":"q","unique_key":"u","if_exists":"return"}',
        {},
    ),
    "once in a while": ("/v1/jobs", b'{"queue":"q","unique_key":"v","once_per":"1h"}', {}),
    "at most without debounce": ("/v1/jobs", b'{"queue":"q","at_most":"1h"}', {}),
    "a callback to nowhere": ("/v1/jobs", b'{"queue":"q","callback":"ftp://x"}', {}),
    "nothing": ("/v1/jobs", b"", {}),
    "half of it": ("/v1/jobs", b'{"queue":', {}),
    "no text at all": ("/v1/jobs", b'{"queue":"q","payload":"\xff"}', {}),
    "an unknown word": ("/v1/jobs", b'{"queue":"q","prio":1}', {}),
    "a queue without a name": ("/v1/jobs", b'{"queue":""}', {}),
    "a rank beyond all": ("/v1/jobs", b'{"queue":"q","rank":99999999999999}', {}),
    "a query": ("/v1/jobs?x=1", b'{"queue":"q"}', {}),
    "a key against doubles": ("/v1/jobs", b'{"queue":"q"}', {"Idempotency-Key": "once"}),
    "the key again": ("/v1/jobs", b'{"queue":"q"}', {"Idempotency-Key": "once"}),
    "from a web page": ("/v1/jobs", b'{"queue":"q"}', {"Origin": "http://elsewhere.example"}),
    "by another name": ("/v1/jobs", b'{"queue":"q"}', {"Host": "elsewhere.example"}),
    "a long payload": ("/v1/jobs", b'{"queue":"q","payload":"%b"}' % (b"x" * 70_000), {}),
    "far too much": ("/v1/jobs", b'{"queue":"q","payload":"%b"}' % (b"x" * 100_000), {}),
    "to be continued": ("/v1/jobs", b'{"queue":"q"}', {"Expect": "100-continue"}),
    "good-bye": ("/v1/jobs", b'{"queue":"q"}', {"Connection": "close"}),
    "for Jobber": ("/jobber/queue", b'{"type":"mail","payload":{"to":"ann"}}', {}),
    "for Jobber, of no type": ("/jobber/queue", b'{"type":" "}', {}),
    "for Jobber, with a callback": ("/jobber/queue", b'{"type":"mail","callback":"ftp://x"}', {}),
    "for Jobber, but no object": ("/jobber/queue", b"[]", {}),
}


@pytest.fixture(scope="module")
def desk() -> Desk:
    return Desk(MemoryStore())


@pytest.fixture(scope="module")
def port(desk: Desk) -> Iterator[int]:
    with listening(SETTINGS, desk) as port:
        yield port


def told(answer: Answer) -> Answer:
    """What does not differ from one time to the next."""
    passing = ("date", "connection")
    headers = {name.lower(): value for name, value in answer.headers.items()}
    for name in passing:
        headers.pop(name, None)
    return Answer(answer.status, headers, UUID.sub(b"<uuid>", answer.content))


def ask(port: int, path: str, said: bytes, headers: dict[str, str]) -> Answer:
    connection = http.client.HTTPConnection("localhost", port, timeout=PATIENCE)
    try:
        connection.request("POST", path, said, headers)
        return answer_on(connection)
    finally:
        connection.close()


def test_all_are_answered_as_on_the_long_way() -> None:
    with listening(SETTINGS) as port, opened(Desk(MemoryStore()), SETTINGS) as api:
        for what, (path, said, headers) in REQUESTS.items():
            short = told(ask(port, path, said, headers))
            long = told(api.ask("POST", path, said, headers))
            assert short == long, what


def how_many(desk: Desk) -> int:
    return sum(sum(queue.counts.values()) for queue in desk.store.survey())


def test_a_job_goes_the_short_way_and_a_refusal_the_long_one(
    desk: Desk, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def stands_in(self: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope["path"])
        await send({"type": "http.response.start", "status": 418, "headers": []})
        await send({"type": "http.response.body"})

    monkeypatch.setattr(Endpoint, "__call__", stands_in)
    before = how_many(desk)
    assert ask(port, *REQUESTS["a job"]).status == 201
    assert ask(port, *REQUESTS["for Jobber"]).status == 201
    assert asked == []
    assert how_many(desk) == before + 2
    assert ask(port, *REQUESTS["half of it"]).status == 418
    assert asked == ["/v1/jobs"]


def conversation(port: int, *parts: bytes) -> list[bytes]:
    """The status lines of all answers on one connection, which the last request ends."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        for part in parts:
            client.sendall(part)
        said = b""
        while more := client.recv(65_536):
            said += more
    return re.findall(rb"HTTP/1.1 (\d+)", said)


def head(length: int, *more: bytes, path: bytes = b"/v1/jobs") -> bytes:
    lines = [b"POST %b HTTP/1.1" % path, b"Host: localhost", b"Content-Length: %d" % length, *more]
    return b"\r\n".join(lines) + b"\r\n\r\n"


BODY = b'{"queue":"q"}'
LIKE_EVER = head(len(BODY)) + BODY
LAST = head(len(BODY), b"Connection: close") + BODY
BREATH = 0.05


def test_requests_sent_in_one_go_are_answered_in_their_order(port: int) -> None:
    one, bad = head(len(BODY)) + BODY, head(1) + b"{"
    assert conversation(port, one + bad + one + LAST) == [b"201", b"400", b"201", b"201"]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The lengths that parsed heads speak of."""
    seen: list[bytes] = []
    listen = HttpToolsProtocol.on_headers_complete

    def overheard(self: HttpToolsProtocol) -> None:
        seen.append(dict(self.headers)[b"content-length"])
        listen(self)

    monkeypatch.setattr(HttpToolsProtocol, "on_headers_complete", overheard)
    return seen


class Caller:
    """A client that waits for each answer."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def status(self, *pieces: bytes) -> int:
        """Of the answer to what is sent in these pieces."""
        for piece in pieces:
            self._socket.sendall(piece)
            if piece is not pieces[-1]:
                time.sleep(BREATH)  # so that it comes alone
        answer = http.client.HTTPResponse(self._socket)
        answer.begin()
        answer.read()
        return answer.status


def test_a_head_is_parsed_once(desk: Desk, parsed: list[bytes]) -> None:
    long = b'{"queue":"q","payload":"%b"}' % (b"x" * 20)
    with listening(SETTINGS, desk) as port:
        before = how_many(desk)
        for _ in range(3):
            with Caller(port) as caller:
                for body in (BODY, long, BODY):
                    assert caller.status(head(len(body)) + body) == 201
        assert how_many(desk) == before + 9
    assert parsed == [b"%d" % len(BODY), b"%d" % len(long)]


def test_what_follows_a_head_that_is_known_is_looked_at_each_time(port: int) -> None:
    bad = BODY.replace(b"queue", b"queer")
    with Caller(port) as caller:
        found = [caller.status(head(len(BODY)) + body) for body in (BODY, bad, BODY)]
    assert found == [201, 400, 201]


def test_a_head_that_is_known_may_come_with_a_body_in_pieces(port: int) -> None:
    with Caller(port) as caller:
        assert caller.status(LIKE_EVER) == 201
        assert caller.status(head(len(BODY)), BODY) == 201
        assert caller.status(LIKE_EVER[:20], LIKE_EVER[20:]) == 201


def test_a_known_head_does_not_let_in_more_than_a_rate_allows() -> None:
    desk = Desk(MemoryStore())
    token = Register(desk).add("ann", ["enqueue"], rate=1.0)
    said = head(len(BODY), b"Authorization: Bearer " + token.encode()) + BODY
    with listening(SETTINGS, desk) as port, Caller(port) as caller:
        assert [caller.status(said), caller.status(said)] == [201, 429]
        assert caller.status(LIKE_EVER) == 401


def test_a_server_that_stops_answers_whom_it_serves_without_the_parser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk, begun, go_on = Desk(MemoryStore()), threading.Event(), threading.Event()
    place = desk.orders.place_each

    def slowly(jobs: Sequence[Job]) -> list[int | StokerError]:
        begun.set()
        go_on.wait(PATIENCE)
        return place(jobs)

    with ThreadPoolExecutor() as pool:
        with listening(SETTINGS, desk) as port:
            caller = Caller(port)
            assert caller.status(LIKE_EVER) == 201
            monkeypatch.setattr(desk.orders, "place_each", slowly)
            answered = pool.submit(caller.status, LIKE_EVER)
            begun.wait(PATIENCE)
            threading.Timer(BREATH, go_on.set).start()
        with caller:
            assert answered.result() == 201
    assert how_many(desk) == 2


def test_a_head_inside_of_another_request_is_no_head(desk: Desk, port: int) -> None:
    with Caller(port) as caller:
        assert caller.status(LIKE_EVER) == 201
        before = how_many(desk)
        # In the middle of a header, and as a body.
        assert caller.status(b"POST /nowhere HTTP/1.1\r\nX-Said: ", LIKE_EVER) == 404
        assert caller.status(head(len(LIKE_EVER)), LIKE_EVER) == 400
        assert how_many(desk) == before
        assert caller.status(LIKE_EVER) == 201


def test_those_who_do_not_wait_are_answered_in_their_order(port: int) -> None:
    bad = head(1) + b"{"
    with Caller(port) as caller:
        assert caller.status(LIKE_EVER) == 201
    pieces = (LIKE_EVER, bad + LIKE_EVER, LIKE_EVER, LAST)
    assert conversation(port, *pieces) == [b"201", b"400", b"201", b"201", b"201"]


def test_a_body_may_come_bit_by_bit(port: int) -> None:
    bits = [BODY[at : at + 1] for at in range(len(BODY))]
    assert conversation(port, head(len(BODY)), *bits, LAST) == [b"201", b"201"]


def test_a_body_in_chunks_is_as_good(port: int) -> None:
    chunked = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunked += b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    assert conversation(port, chunked + LAST) == [b"201", b"201"]


def test_an_old_client_is_hung_up_on_after_its_answer(port: int) -> None:
    old = b"POST /v1/jobs HTTP/1.0\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    assert conversation(port, old + BODY) == [b"201"]


def test_a_client_that_is_gone_harms_nobody(desk: Desk, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        client.sendall(head(len(BODY)) + BODY)
        client.shutdown(socket.SHUT_RDWR)
    assert conversation(port, LAST) == [b"201"]


def test_tokens_and_rates_count_here_too() -> None:
    desk = Desk(MemoryStore())
    token = Register(desk).add("ann", ["enqueue"], rate=1.0)
    reader = Register(desk).add("bob", ["work"])
    with listening(SETTINGS, desk) as port:
        ways = [
            ask(port, "/v1/jobs", BODY, {"Authorization": f"Bearer {said}"}).status
            for said in (token, token, "wrong", reader)
        ]
    assert ways == [201, 429, 401, 403]
