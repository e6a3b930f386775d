"""Connections that cannot be used, and why."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from stoker import Stoker
from stoker.errors import BadInput
from tests.store.outsiders import queued
from tests.store.sqlite.within.connections import (
    KINDS,
    Kind,
    of_python,
    plain,
)


@pytest.mark.parametrize(
    ("kind", "other", "words"),
    [
        (KINDS[5], sqlite3.connect, r"of sqlite3 cannot be shared .* add \?library=sqlite3"),
        (KINDS[0], apsw.Connection, r"of apsw cannot be shared .* add \?library=apsw"),
    ],
    ids=["sqlite3", "apsw"],
)
def test_a_connection_of_another_library_is_refused(
    kind: Kind, other: Any, words: str, app: Stoker
) -> None:
    task = app.task(name="work")(lambda: None)
    with closing(other(":memory:")) as connection, pytest.raises(BadInput, match=words):
        task.within(connection).enqueue()


@plain
def test_a_connection_to_another_file_is_refused(kind: Kind, app: Stoker, tmp_path: Path) -> None:
    task = app.task(name="work")(lambda: None)
    for other in (tmp_path / "shop.db", Path(":memory:")):
        with (
            kind.opened(other) as connection,
            pytest.raises(BadInput, match=r"leads to another file; it has to be one to .*jobs"),
        ):
            task.within(connection).enqueue()


@of_python
def test_a_file_that_is_only_attached_is_refused(
    kind: Kind, app: Stoker, path: Path, tmp_path: Path
) -> None:
    task = app.task(name="work")(lambda: None)
    assert queued(app.desk) == 0
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("ATTACH ? AS jobs", (str(path),))
        with pytest.raises(BadInput, match="does not commit two files as one"):
            task.within(connection).enqueue()


@of_python
@pytest.mark.parametrize(
    ("connection", "words"),
    [
        ("jobs.db", "a str is no connection that can be used here; it must be of sqlite3"),
        (AsyncSession(), "that are awaited cannot be used here"),
    ],
)
def test_what_is_no_connection_is_refused(
    kind: Kind, connection: object, words: str, app: Stoker
) -> None:
    with pytest.raises(BadInput, match=words):
        app.task(name="work")(lambda: None).within(connection).enqueue()
