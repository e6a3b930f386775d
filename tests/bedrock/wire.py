"""A client that speaks to a socket, and the server process it speaks to."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import stoker

SOURCE = str(Path(stoker.__file__).parents[1])
PATIENCE = 30.0
STOP = 20.0


class Answer(NamedTuple):
    """One reply, taken apart."""

    status: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Wire:
    """One connection."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        plain = socket.create_connection(("127.0.0.1", port), PATIENCE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost")
        self._left = b""

    def send(self, text: str | bytes) -> None:
        self.socket.sendall(text if isinstance(text, bytes) else text.encode())

    def answer(self) -> Answer:
        """The next reply."""
        while b"\r\n\r\n" not in self._left:
            self._more()
        head, _, self._left = self._left.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        length = int(headers["Content-Length"])
        while len(self._left) < length:
            self._more()
        body, self._left = self._left[:length], self._left[length:]
        return Answer(status, headers, body)

    def _more(self) -> None:
        came = self.socket.recv(65_536)
        if not came:
            raise EOFError(f"closed after {self._left!r}")
        self._left += came

    def say(self, text: str) -> Answer:
        self.send(text)
        return self.answer()

    def ask(self, verb: str, /, **headers: object) -> Answer:
        """A request as a client for machines writes it: CRLF, and always a Content-Length."""
        return self.say(written(verb, **headers))

    def ended(self) -> bool:
        """Whether nothing more comes."""
        try:
            return self._left + self.socket.recv(65_536) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Go away without reading what was sent."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()


def written(verb: str, /, **headers: object) -> str:
    lines = [f"{name}: {_text(value)}\r\n" for name, value in headers.items()]
    return f"{verb}\r\n{''.join(lines)}Content-Length: 0\r\n\r\n"


def _text(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text.replace("\\", "\\\\")


class Server:
    """A `stoker serve` of its own, which says on which port it listens."""

    def __init__(self, url: str, *options: str, env: dict[str, str] | None = None) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STOKER")}
        words = ("serve", "--store", url, "--bedrock", "127.0.0.1:0", *options)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stoker", *words],
            env={**clean, "PYTHONPATH": SOURCE, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"bedrock on 127\.0\.0\.1:(\d+)", line)
        assert found, line + self.process.stdout.read()
        self.port = int(found[1])
        self._wires: list[Wire] = []

    def connect(self, tls: ssl.SSLContext | None = None) -> Wire:
        self._wires.append(Wire(self.port, tls))
        return self._wires[-1]

    def hang_up(self) -> None:
        """Close all connections of a test."""
        while self._wires:
            self._wires.pop().close()

    def stop(self) -> str:
        """End it as an operator does; what it said meanwhile."""
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=STOP)
        assert self.process.returncode == 0, said
        return said

    def kill(self) -> None:
        self.hang_up()
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        if self.process.stdout is not None:
            self.process.stdout.close()


def eventually(check: Any) -> None:
    """Until a check holds; it is asked often, and given up in the end."""
    deadline = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.005)
