"""One connection: made by redis-py, whose business logins and TLS are; retries are ours.

What is said on it then goes straight to the socket: most calls are short, and redis-py's layers
would take as long as the system needs to carry them there and back.
"""

from __future__ import annotations

import socket
import struct
import time
from ssl import SSLSocket, SSLWantReadError
from typing import Any

from hiredis import Reader, pack_command
from redis import exceptions as trouble
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry

from stoker.store.redis.options import Options, Tls
from stoker.store.redis.topology import Address
from stoker.store.redis.vigil import LONGEST, Vigil

Argument = bytes | str | int | float

_READ_SIZE = 1 << 20
_SENTINEL_SECONDS = 1.0
"""Sentinels have nothing to do but answer, and there are others."""
_INCOMPLETE: Any = object()
_WAITED_IN_VAIN = (TimeoutError, BlockingIOError, SSLWantReadError)

HERALD = b"*1\r\n$4\r\nPING\r\n"
"""Sent ahead of a command whose news for others shall leave the server before its own answer: the
server writes to those first who had nothing to get until last. Whoever has been answered the herald
by the time of the news comes behind them."""


class Line:
    """A connection to one server, which is made when it is first used."""

    def __init__(self, made: Any, address: Address) -> None:
        self.address = address
        self._made = made
        self._socket: Any = None
        self._reader: Any = None
        self._buffer = bytearray(_READ_SIZE)
        self._vigil = Vigil(possible=False)

    def connect(self) -> None:
        """Make it; it need not be asked for."""
        self._made.connect()
        self._socket = self._made._sock  # noqa: SLF001 - which is what this class is for
        if not isinstance(self._socket, SSLSocket):
            _let_the_system_wait(self._socket, self._made.socket_timeout)
            self._vigil = Vigil()
        self._reader = Reader(
            protocolError=trouble.InvalidResponse,
            replyError=self._made._parser.parse_error,  # noqa: SLF001 - of every kind of its errors
            notEnoughData=_INCOMPLETE,
        )

    def disconnect(self) -> None:
        """Close it. The next use makes it anew."""
        self._socket = self._reader = None
        self._made.disconnect()

    def fileno(self) -> int:
        """For those who wait for it beside others."""
        return int(self._socket.fileno())

    def exchange(self, command: bytes, *, awake: bool = False) -> Any:
        """Send a packed command, with a herald or without, and read its answer, which may be so
        near that it is best waited for awake. An error that the server tells is raised."""
        self.send(command)
        if awake and self._vigil.is_worth_it():
            self._vigil.ended(in_vain=not self._is_answered_at_once())
        if command.startswith(HERALD):
            self._next()  # whatever it is: the command itself is answered, too
        return self.read()

    def send(self, command: bytes) -> None:
        """Send a packed command."""
        if self._socket is None:
            self.connect()
        try:
            self._socket.sendall(command)
        except _WAITED_IN_VAIN as error:
            raise trouble.TimeoutError("the server takes nothing in") from error
        except OSError as error:
            raise trouble.ConnectionError(f"cannot send: {error}") from error

    def read(self) -> Any:
        """The next answer, or what else the server has to say."""
        answer = self._next()
        if isinstance(answer, trouble.RedisError):
            raise answer
        return answer

    def _next(self) -> Any:
        while (answer := self._reader.gets(False)) is _INCOMPLETE:
            self._receive()
        return answer

    def listen(self) -> None:
        """From now on nobody waits here for what the server says: see `heard`."""
        self._socket.setblocking(False)

    def heard(self) -> list[Any]:
        """All that has come since the last time."""
        try:
            self._receive()
        except trouble.TimeoutError:
            return []
        news = []
        while (said := self._reader.gets(False)) is not _INCOMPLETE:
            if isinstance(said, trouble.RedisError):
                raise said
            news.append(said)
        return news

    def _is_answered_at_once(self) -> bool:
        until = time.perf_counter() + LONGEST
        while time.perf_counter() < until:
            try:
                self._socket.recv_into(self._buffer, 1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
            except BlockingIOError:
                continue
            except OSError:
                pass  # whoever reads hears of it
            return True
        return False

    def _receive(self) -> None:
        try:
            size = self._socket.recv_into(self._buffer)
        except _WAITED_IN_VAIN as error:
            raise trouble.TimeoutError("the server does not answer") from error
        except OSError as error:
            raise trouble.ConnectionError(f"cannot receive: {error}") from error
        if not size:
            raise trouble.ConnectionError("the server closed the connection")
        self._reader.feed(self._buffer, 0, size)


def _let_the_system_wait(line: socket.socket, seconds: float) -> None:
    """Python would ask whether the socket is ready before each use of it, to keep the time itself.
    With TLS it has to."""
    whole = int(seconds)
    span = struct.pack("ll", whole, int((seconds - whole) * 1e6))
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, span)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, span)
    line.settimeout(None)


def connect(options: Options, address: Address, *, sentinel: bool = False) -> Line:
    """A connection to one server, which is made when it is first used."""
    kind, settings = _kind(options, address)
    # A little more, so that whoever waits in the server for a replica or a disk comes first.
    seconds = _SENTINEL_SECONDS if sentinel else options.attempt + 1.0
    if sentinel:
        settings |= {"username": options.sentinel_username, "password": options.sentinel_password}
    else:
        settings |= {"username": options.username, "password": options.password}
        settings["db"] = options.database
    made = kind(
        **settings,
        protocol=2,
        socket_timeout=seconds,
        socket_connect_timeout=max(seconds - 1.0, 1.0),
        retry=Retry(NoBackoff(), 0),
        driver_info=None,
    )
    return Line(made, address)


def _kind(options: Options, address: Address) -> tuple[Any, dict[str, Any]]:
    if not address.port:
        return UnixDomainSocketConnection, {"path": address.host}
    place = {"host": address.host, "port": address.port}
    if options.tls is None:
        return Connection, place
    return SSLConnection, place | _tls(options.tls)


def _tls(tls: Tls) -> dict[str, Any]:
    return {
        "ssl_ca_certs": tls.ca,
        "ssl_certfile": tls.cert,
        "ssl_keyfile": tls.key,
        "ssl_cert_reqs": "required" if tls.verify else "none",
        "ssl_check_hostname": tls.verify,
    }


def packed(*command: Argument) -> bytes:
    """A command in the form in which it travels.

    Numbers are written down here: an interrupt while hiredis does it would end the process.
    """
    told = [word if isinstance(word, (bytes, str)) else str(word) for word in command]
    words: Any = tuple(told)  # of which there may be more than the function's stub knows
    return bytes(pack_command(words))


class Prepared:
    """A command whose first words are always the same, and three more that are bytes.

    >>> Prepared("SET", "a")(b"1", b"PX", b"9")
    b'*5\\r\\n$3\\r\\nSET\\r\\n$1\\r\\na\\r\\n$1\\r\\n1\\r\\n$2\\r\\nPX\\r\\n$1\\r\\n9\\r\\n'
    """

    def __init__(self, *words: str) -> None:
        told = b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in map(str.encode, words))
        self._beginning = b"*%d\r\n%b" % (len(words) + 3, told)

    def __call__(self, one: bytes, two: bytes, three: bytes) -> bytes:
        words = (len(one), one, len(two), two, len(three), three)
        return b"%b$%d\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (self._beginning, *words)
