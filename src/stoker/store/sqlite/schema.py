"""Bringing a file to the schema this version speaks, one numbered step at a time."""

from __future__ import annotations

from stoker.errors import StoreCorrupt, StoreTooNew, StoreUnfit
from stoker.store.files import migrations
from stoker.store.sqlite.library import Connection

# "Stok": tells our files from anybody else's SQLite files.
APPLICATION_ID = 0x53746F6B

_PACKAGE = "stoker.store.sqlite.sql"


def migrate(connection: Connection, path: str) -> tuple[int, int]:
    """Run what is missing; returns the version that was found and the one there is now.

    The caller holds the gate, so nobody else migrates meanwhile.
    """
    version = check(connection, path)
    if version == 0:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # too late after the first table
    _use_wal(connection, path)
    steps = migrations(_PACKAGE)
    for number, script in steps.items():
        if number > version:
            _step(connection, number, script)
    return version, max(steps)


def check(connection: Connection, path: str) -> int:
    """The file's schema version; refuse files that are not ours or come from the future."""
    version, application = (
        _pragma(connection, "user_version"),
        _pragma(connection, "application_id"),
    )
    newest = max(migrations(_PACKAGE))
    if version > newest:
        raise StoreTooNew(
            f"{path} has schema {version}, this version of Stoker knows up to {newest}; "
            "upgrade Stoker, or use another file"
        )
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application != APPLICATION_ID and (tables or version):
        raise StoreCorrupt(
            f"{path} is an SQLite file, but not one of Stoker's; choose another file for the jobs"
        )
    return version


def _use_wal(connection: Connection, path: str) -> None:
    if connection.execute("PRAGMA journal_mode = WAL").get != "wal":
        raise StoreUnfit(
            f"{path} cannot have a write-ahead log where it is; put it on a local disk"
        )


def _step(connection: Connection, number: int, script: str) -> None:
    with connection:
        connection.execute(script)
        connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").get)
