"""Connections of every kind, each in a transaction that ends well or not."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from stoker.store.sqlite import SqliteStore
from tests.model.sqlite_books import assert_books_balance
from tests.store.django_site import atomic, connection_to


@contextmanager
def sqlite3_connection(path: Path) -> Iterator[Any]:
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


@contextmanager
def sqlite3_with_tastes_of_its_own(path: Path) -> Iterator[Any]:
    with closing(sqlite3.connect(path, isolation_level="EXCLUSIVE")) as connection, connection:
        connection.row_factory = lambda cursor, row: str(row)
        connection.text_factory = bytes
        yield connection
        assert connection.text_factory is bytes


@contextmanager
def sqlite3_begun_by_hand(path: Path) -> Iterator[Any]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection, connection:
        connection.execute("BEGIN")
        yield connection


@contextmanager
def engine_on(path: Path) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def sqlalchemy_connection(path: Path) -> Iterator[Any]:
    with engine_on(path) as engine, engine.connect() as connection:
        yield connection
        connection.commit()


@contextmanager
def sqlalchemy_session(path: Path) -> Iterator[Any]:
    with engine_on(path) as engine, Session(engine) as session, session.begin():
        yield session


@contextmanager
def apsw_connection(path: Path) -> Iterator[Any]:
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(10_000)
        with connection:
            yield connection


@contextmanager
def apsw_with_rows_as_dictionaries(path: Path) -> Iterator[Any]:
    with apsw_connection(path) as connection:
        connection.row_trace = trace = lambda cursor, row: dict(enumerate(row))
        yield connection
        assert connection.row_trace is trace


@contextmanager
def django_connection(path: Path) -> Iterator[Any]:
    connection = connection_to(f"at {path}", "sqlite3", NAME=str(path))
    try:
        with atomic(connection):
            yield connection
    finally:
        connection.close()


class Kind(NamedTuple):
    """A kind of connection, and the library it is of."""

    library: str
    opened: Callable[[Path], AbstractContextManager[Any]]


KINDS = [
    Kind("sqlite3", sqlite3_connection),
    Kind("sqlite3", sqlite3_with_tastes_of_its_own),
    Kind("sqlite3", sqlite3_begun_by_hand),
    Kind("sqlite3", sqlalchemy_connection),
    Kind("sqlite3", sqlalchemy_session),
    Kind("apsw", apsw_connection),
    Kind("apsw", apsw_with_rows_as_dictionaries),
    Kind("sqlite3", django_connection),
]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.opened.__name__)
anywhere = pytest.mark.parametrize("kind", KINDS[:-1], ids=lambda kind: kind.opened.__name__)
"""Django's can not be used in async code."""
plain = pytest.mark.parametrize("kind", [KINDS[0], KINDS[5]], ids=["sqlite3", "apsw"])
of_python = pytest.mark.parametrize("kind", [KINDS[0]], ids=["sqlite3"])


def run(connection: Any, sql: str) -> Any:
    """A statement of the caller's own."""
    if hasattr(connection, "vendor"):
        return connection.cursor().execute(sql)
    core = type(connection).__module__.startswith("sqlalchemy")
    return connection.execute(sqlalchemy.text(sql) if core else sql)


def make_effects(kind: Kind, path: Path) -> None:
    """A table of the caller's own, in the file of the store."""
    with kind.opened(path) as connection:
        run(connection, "CREATE TABLE effect (job INTEGER)")


def effects(kind: Kind, path: Path) -> int:
    opened = sqlite3.connect if kind.library == "sqlite3" else apsw.Connection
    with closing(opened(str(path))) as connection:
        return len(connection.execute("SELECT job FROM effect").fetchall())


def assert_balanced(store: object) -> None:
    assert isinstance(store, SqliteStore)
    assert_books_balance(store.path, store.file.library)
