"""A real RabbitMQ for tests, without being installed.

If the system has none, Debian's packages of it and of Erlang are downloaded with `apt-get
download`, which needs no rights, and unpacked into a folder for temporary files, where the next
run finds them. Where neither is possible the tests that need it say so.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from tests.servers.kept import Kept
from tests.servers.valkey import HOST, PATIENCE, free_port

WHY_NOT = "needs RabbitMQ: install rabbitmq-server, or run where `apt-get download` works"

_ERLANG = "asn1 base crypto eldap inets mnesia os-mon parsetools public-key runtime-tools ssl"
_PACKAGES = (
    "rabbitmq-server",
    "libsctp1",
    *(f"erlang-{part}" for part in f"{_ERLANG} syntax-tools tools xmerl".split()),
)
_LONGEST = 120.0
_ERL = Path("usr/lib/erlang/bin/erl")

# Goes away when the pipe to the test run does, and takes the server and its port mapper along.
_KEEPER = (
    'epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 & mapper=$!; "$@" & server=$!; echo $server; '
    "read -r _; kill $server 2>/dev/null; wait $server; kill $mapper; wait $mapper"
)


@cache
def root() -> Path | None:
    """The folder in which there is usr/lib/rabbitmq, None if there is no way to it."""
    if next(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"), None) is not None:
        return Path("/")
    kept = Path(tempfile.gettempdir()) / f"stoker-rabbitmq-{os.getuid()}"
    if not kept.exists():
        with suppress(OSError, subprocess.SubprocessError):
            _fetch(kept)
    return kept if kept.exists() else None


def _fetch(kept: Path) -> None:
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        folder = Path(name)
        _run(folder, "apt-get", "download", *_PACKAGES)
        unpacked = folder / "root"
        for package in folder.glob("*.deb"):
            _run(folder, "dpkg-deb", "-x", package.name, unpacked.name)
        erl = unpacked / _ERL
        moved = erl.read_text().replace("=/usr/lib/erlang", f"={kept / 'usr/lib/erlang'}")
        erl.write_text(moved)
        unpacked.rename(kept)  # whole, or not at all


def _run(folder: Path, *words: str) -> None:
    subprocess.run(words, cwd=folder, check=True, timeout=_LONGEST, capture_output=True)


class RabbitServer(Kept):
    """A server of our own."""

    def __init__(self, root: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="stoker-rabbit-"))
        self.port = free_port()
        self._program = next((root / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
        self._environment = self._settings(root)
        (self.folder / "plugins").write_text("[].")
        self.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"amqp://{HOST}:{self.port}"

    def _settings(self, root: Path) -> dict[str, str]:
        erlang = root / "usr/lib/erlang/bin"
        folder = self.folder
        return os.environ | {
            "PATH": f"{erlang}:{os.environ['PATH']}",
            "HOME": str(folder),
            "LD_LIBRARY_PATH": str(next((root / "usr/lib").glob("*-linux-gnu"), "")),
            "ERL_EPMD_PORT": str(free_port()),
            "ERL_EPMD_ADDRESS": HOST,
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_HOME": str(self._program),
            "RABBITMQ_NODENAME": f"{folder.name}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(folder / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 -kernel inet_dist_use_interface "
            "{127,0,0,1}",
        }

    def start(self) -> None:
        """Start it and wait until it listens."""
        with (self.folder / "log").open("ab") as log:
            self._keeper = subprocess.Popen(
                ["sh", "-c", _KEEPER, "sh", self._program / "sbin/rabbitmq-server", "-noinput"],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert time.monotonic() < deadline and self._keeper.poll() is None, self.log()
            time.sleep(0.05)

    def _answers(self) -> bool:
        """It listens when all else is done."""
        with suppress(OSError), socket.create_connection((HOST, self.port)):
            return True
        return False


@contextmanager
def server(root: Path) -> Iterator[RabbitServer]:
    """A server for some tests."""
    own = RabbitServer(root)
    try:
        yield own
    finally:
        own.remove()
