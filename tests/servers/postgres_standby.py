"""A second PostgreSQL server that follows a first one, until it is promoted."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import psycopg

from tests.servers.postgres import PATIENCE, Server


class Standby(Server):
    """Made by `pg_basebackup` of a server that runs. From now on that one acknowledges nothing that
    is not on the disk of this one, too."""

    def __init__(self, primary: Server) -> None:
        self._primary = primary
        super().__init__(primary.programs, settings=())
        self._be_waited_for()

    def _make(self) -> None:
        command: list[str | Path] = [self.programs / "pg_basebackup", "--pgdata", self._data]
        command += [
            "--write-recovery-conf",
            "--host",
            self._primary.folder,
            "--username",
            "postgres",
        ]
        command += ["--checkpoint", "fast", "--no-sync"]
        with (self.folder / "basebackup.log").open("wb") as log:
            subprocess.run(
                command, check=True, stdout=log, stderr=log, cwd=self.folder, **self._user
            )

    def _be_waited_for(self) -> None:
        with psycopg.connect(self._primary.url(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            deadline = time.monotonic() + PATIENCE
            states = "SELECT sync_state FROM pg_stat_replication"
            while connection.execute(states).fetchall() != [("sync",)]:
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.01)

    def promote(self) -> None:
        """Let it take the place of the other, which must be gone."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote()").fetchone() == (True,)

    def url_of_both(self, schema: str, **more: str) -> str:
        """The address of a store that is on whichever of the two takes writes."""
        return self.url(schema, host=f"{self._primary.folder},{self.folder}", **more)
