"""Clients that send too much, too slowly, or not at all."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from functools import partial
from unittest.mock import Mock

import pytest

from stoker.desk import Desk
from stoker.doors.http.envelope import Envelope
from stoker.doors.http.settings import Settings
from stoker.kernel.job import Job
from stoker.store.memory import MemoryStore
from tests.http.client import PATIENCE
from tests.http.server import listening
from tests.worker.waiting import until

LARGE = 8 * 2**20
QUICK = Settings(
    port=0,
    largest_body=1000,
    largest_head=2000,
    head_seconds=0.2,
    body_seconds=0.2,
    idle_seconds=1,
    connections=5,
)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with listening(QUICK) as port:
        yield port


def told(port: int, *parts: bytes) -> bytes:
    """All that comes back until the server hangs up."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        for part in parts:
            client.sendall(part)
        answer = b""
        try:
            while more := client.recv(65_536):
                answer += more
        except ConnectionError:
            pass  # it hung up before it had read everything
        return answer


def post(length: int, body: bytes, *headers: bytes) -> bytes:
    lines = [b"Host: localhost", b"Content-Length: %d" % length, *headers]
    return b"POST /v1/jobs HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + body


def test_a_body_that_is_too_large_is_refused_before_it_is_read(port: int) -> None:
    answer = told(port, post(1001, b""))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"1,000 bytes at most" in answer


def test_a_body_that_turns_out_too_large_is_refused(port: int) -> None:
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%b\r\n" % (600, b" " * 600)
    assert told(port, head, chunk, chunk).startswith(b"HTTP/1.1 413 ")


def test_a_head_that_does_not_come_is_not_waited_for(port: int) -> None:
    for begun in (b"", b"POST /v1/jobs HTTP/1.1\r\nHost: loc"):
        assert told(port, begun) == b"" or told(port, begun).startswith(b"HTTP/1.1 408 ")


def test_neither_is_the_head_of_a_second_request(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 ")
        client.sendall(b"GET /hea")
        answer = b""
        while more := client.recv(65_536):
            answer += more
    assert b"HTTP/1.1 408 " in answer


def test_a_body_that_does_not_come_is_not_waited_for(port: int) -> None:
    assert told(port, post(100, b"{")).startswith(b"HTTP/1.1 408 ")


def test_a_connection_without_requests_is_closed_after_a_while(port: int) -> None:
    answer = told(port, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"}")


def test_a_head_that_is_too_large_is_refused(port: int) -> None:
    answer = told(port, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 5000)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")


def test_a_request_at_leisure_is_served_all_the_same(port: int) -> None:
    """It is the whole request that has a time limit, not each byte."""
    body = b'{"queue":"q"}'
    answer = told(port, post(len(body), b"", b"Connection: close"), body[:5], body[5:])
    assert answer.startswith(b"HTTP/1.1 201 ")


def test_there_are_only_so_many_connections() -> None:
    with listening(QUICK._replace(connections=3, head_seconds=30.0)) as port:
        others = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(4)]
        answer = told(port, b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503 ")
        for other in others:
            other.close()


# -- clients that do not take what they asked for ------------------------------------------


@pytest.fixture(scope="module")
def laden() -> Desk:
    """With a job that is more than a connection holds."""
    desk = Desk(MemoryStore())
    desk.intake.enqueue(Job("q", payload=b'"%b"' % (b"x" * LARGE)))
    return desk


def asking(port: int, path: str) -> socket.socket:
    """A client that has asked, and can hold little of the answer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(PATIENCE)
    client.connect(("127.0.0.1", port))
    client.sendall(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode())
    return client


@pytest.mark.parametrize("path", ["/v1/jobs/1", "/v1/events?job=1"])
def test_a_client_that_does_not_take_its_answer_is_let_go(
    laden: Desk, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    health = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    settings = Settings(port=0, connections=2, send_seconds=0.2, idle_seconds=1)
    with listening(settings, laden) as port, asking(port, path) as client:
        client.recv(1)
        until(lambda: told(port, health).startswith(b"HTTP/1.1 200 "))
    assert [record for record in caplog.records if record.exc_info] == []


class Pipe(asyncio.Transport):
    """Of which somebody takes what he likes."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 0
        self.aborted = False

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.left += len(data)

    def close(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.left

    def abort(self) -> None:
        self.aborted = True


def test_a_client_that_takes_it_slowly_is_not_let_go() -> None:
    pipe, loop, looks = Pipe(), Mock(), []
    loop.call_later = lambda _, look, *said: looks.append(partial(look, *said))
    envelope = Envelope(pipe, loop, 30.0)
    envelope.send(b"x" * 100)
    envelope.close()
    for _ in range(5):
        pipe.left -= 10
        envelope.send(b"y" * 10)  # more comes than goes, but it goes
        looks.pop()()
        assert not pipe.aborted
    looks.pop()()
    assert (pipe.aborted, looks) == (True, [])


def test_the_head_and_the_body_of_an_answer_come_in_one_piece(port: int) -> None:
    job = b'{"queue":"q"}'
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        for _ in range(20):
            client.sendall(post(len(job), job))
            head, _, body = client.recv(65_536).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 201 ")
            assert body.endswith(b'"fresh":true}')
