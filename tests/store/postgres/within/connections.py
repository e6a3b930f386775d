"""Connections of every driver, each in a transaction that ends well or not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tests.servers.postgres import Server
from tests.store.django_site import atomic, connection_to


@contextmanager
def psycopg_connection(server: Server) -> Iterator[Any]:
    with psycopg.connect(server.url()) as connection:
        yield connection


@contextmanager
def psycopg_with_rows_as_dictionaries(server: Server) -> Iterator[Any]:
    rows: Any = psycopg.rows.dict_row
    with psycopg.connect(server.url(), row_factory=rows) as connection:
        yield connection


def _sqlalchemy_url(server: Server, driver: str) -> str:
    return server.url().replace("postgresql:", f"postgresql+{driver}:")


@contextmanager
def sqlalchemy_connection(server: Server) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(_sqlalchemy_url(server, "psycopg"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def sqlalchemy_session(server: Server) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(_sqlalchemy_url(server, "psycopg"))
    try:
        with Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


def django_connection_to(server: Server) -> Any:
    place = {"NAME": "postgres", "USER": "postgres", "HOST": str(server.folder)}
    return connection_to(f"at {server.folder}", "postgresql", **place)


@contextmanager
def django_connection(server: Server) -> Iterator[Any]:
    connection = django_connection_to(server)
    try:
        with atomic(connection):
            yield connection
    finally:
        connection.close()


@asynccontextmanager
async def async_psycopg_connection(server: Server) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(server.url()) as connection:
        yield connection


@asynccontextmanager
async def asyncpg_connection(server: Server) -> AsyncIterator[Any]:
    folder = str(server.socket.parent)
    connection = await asyncpg.connect(host=folder, user="postgres", database="postgres")
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(server: Server) -> AsyncIterator[Any]:
    folder = str(server.socket.parent)
    pool = asyncpg.create_pool(host=folder, user="postgres", database="postgres", min_size=1)
    async with pool, pool.acquire() as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def async_sqlalchemy_connection(server: Server) -> AsyncIterator[Any]:
    engine = create_async_engine(_sqlalchemy_url(server, "asyncpg"))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def async_sqlalchemy_session(server: Server) -> AsyncIterator[Any]:
    engine = create_async_engine(_sqlalchemy_url(server, "psycopg"))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


SYNC: list[Callable[[Server], AbstractContextManager[Any]]] = [
    psycopg_connection,
    psycopg_with_rows_as_dictionaries,
    sqlalchemy_connection,
    sqlalchemy_session,
    django_connection,
]
ASYNC = [
    async_psycopg_connection,
    asyncpg_connection,
    asyncpg_pool,
    async_sqlalchemy_connection,
    async_sqlalchemy_session,
]
connections = pytest.mark.parametrize("opened", SYNC, ids=lambda each: each.__name__)
awaited = pytest.mark.parametrize("opened", ASYNC, ids=lambda each: each.__name__)


def roll_back(connection: Any) -> None:
    """End its transaction without a trace."""
    if hasattr(connection, "set_rollback"):
        connection.set_rollback(True)
    else:
        connection.rollback()


def savepoint(connection: Any) -> Any:
    """What its driver has for a transaction inside of the transaction."""
    if hasattr(connection, "begin_nested"):
        return connection.begin_nested()
    if hasattr(connection, "vendor"):
        return atomic(connection)
    return connection.transaction()


def run(connection: Any, statement: str) -> None:
    """Have it run a statement."""
    if hasattr(connection, "vendor"):
        connection.cursor().execute(statement)
    else:
        is_sqlalchemy = type(connection).__module__.startswith("sqlalchemy.")
        connection.execute(sqlalchemy.text(statement) if is_sqlalchemy else statement)
