"""A real PgBouncer, where it is installed, which lends out its connections by the transaction."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.servers.postgres import PATIENCE, Server, user_of_servers

_SETTINGS = """
[databases]
postgres = host={server} user=postgres
[pgbouncer]
listen_port = 5432
listen_addr =
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 2
"""


def program() -> str | None:
    """Where it is, if anywhere."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def pgbouncer(server: Server) -> Iterator[str]:
    """The folder to give as `host` so that connections go through it; two do for everybody."""
    user, found = user_of_servers(), program()
    assert found is not None
    with tempfile.TemporaryDirectory(prefix="stoker-bouncer-") as folder:
        settings, log = Path(folder, "pgbouncer.ini"), Path(folder, "log")
        settings.write_text(_SETTINGS.format(server=server.folder, folder=folder))
        if user:
            os.chown(folder, user["user"], user["group"])
        with log.open("wb") as said:
            process = subprocess.Popen([found, settings], stdout=said, stderr=said, **user)
        try:
            _wait_for(process, folder, log)
            yield folder
        finally:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], folder: str, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(f"host={folder} user=postgres dbname=postgres").close()
        except psycopg.OperationalError:
            alive = process.poll() is None and time.monotonic() < deadline
            assert alive, log.read_text()
            time.sleep(0.01)
        else:
            return
