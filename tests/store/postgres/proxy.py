"""What may stand between a store and its server: a line that can be cut, and a pooler.

Both understand just as much of the protocol as they need: messages from the server are a letter, a
length and a body, and one that begins with Z says that it is ready for something new.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_READY = b"Z"
_NOTICE = b"A"
_SYNC, _QUERY, _FLUSH, _GOODBYE = b"S", b"Q", b"H", b"X"


class Line:
    """One client's way to the server and back."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._ends = (client, server)

    def cut(self) -> None:
        """Nothing more goes through, in either direction."""
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Wire:
    """Lines that can be cut: all at once, or each at the moment its next answer comes back."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._lines: list[Line] = []
        self.swallowing = False
        """Are answers lost, and their lines with them?"""

    def serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(self._target))
        line = Line(client, server)
        self._lines.append(line)
        forth = threading.Thread(target=_copy, args=(client, server), daemon=True)
        forth.start()
        while data := _received(server):
            if self.swallowing:
                line.cut()
            with contextlib.suppress(OSError):
                client.sendall(data)
        line.cut()
        forth.join()
        client.close()
        server.close()

    def cut(self) -> None:
        """Cut what there is. New lines may be made."""
        lines, self._lines = self._lines, []
        for line in lines:
            line.cut()


class Pooler:
    """Few connections for many clients: each has one for the length of a transaction only, and
    next time another. What a session would remember is lost, or found by somebody else."""

    def __init__(self, target: Path, size: int = 2) -> None:
        self._spare: queue.Queue[socket.socket] = queue.Queue()
        self._all: list[socket.socket] = []
        self._greeting = b""
        for _ in range(size):
            self._add(target)

    def _add(self, target: Path) -> None:
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(target))
        words = b"user\0postgres\0database\0postgres\0client_encoding\0UTF8\0\0"
        server.sendall(struct.pack(">ii", len(words) + 8, 196608) + words)
        self._greeting = b"".join(letter + body for letter, body in _until_ready(server))
        self._all.append(server)
        self._spare.put(server)

    def serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, EOFError):
            self._greet(client)
            while True:
                letter, body = _message(client)
                if letter != _FLUSH:  # nothing is under way that could be hurried
                    self._transaction(client, letter, body)

    def _greet(self, client: socket.socket) -> None:
        (length,) = struct.unpack(">i", _exactly(client, 4))
        _exactly(client, length - 4)
        client.sendall(self._greeting)

    def _transaction(self, client: socket.socket, letter: bytes, body: bytes) -> None:
        server = self._spare.get()
        try:
            while True:
                if letter == _GOODBYE:
                    raise EOFError
                server.sendall(letter + body)
                if letter in (_SYNC, _QUERY) and not self._answer(client, server):
                    return
                letter, body = _message(client)
        finally:
            self._spare.put(server)

    @staticmethod
    def _answer(client: socket.socket, server: socket.socket) -> bool:
        """Pass the answer on; is the transaction still open?"""
        last = b""
        for letter, body in _until_ready(server):
            if letter != _NOTICE:
                client.sendall(letter + body)
            last = body
        return last[-1:] != b"I"

    def close(self) -> None:
        """Let the server go."""
        for server in self._all:
            server.close()


@contextmanager
def standing_between(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """The folder to give as `host` so that connections go through `serve`."""
    with tempfile.TemporaryDirectory(prefix="stoker-way-") as folder:
        door = socket.socket(socket.AF_UNIX)
        door.bind(f"{folder}/.s.PGSQL.5432")
        door.listen()
        host = threading.Thread(target=_welcome, args=(door, serve), daemon=True)
        host.start()
        try:
            yield folder
        finally:
            with contextlib.suppress(OSError):
                door.shutdown(socket.SHUT_RDWR)
            host.join()
            door.close()


def _welcome(door: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = door.accept()
            threading.Thread(target=serve, args=(client,), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := _received(source):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def _received(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except OSError:
        return b""


def _until_ready(server: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    letter = b""
    while letter != _READY:
        letter, body = _message(server)
        yield letter, body


def _message(source: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(source, 5)
    (length,) = struct.unpack(">i", head[1:])
    return head[:1], head[1:] + _exactly(source, length - 4)


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = source.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data
