"""Connections of others: which kinds there are, and how one statement is sent over each."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import tuple_row

from stoker.errors import BadInput


def send(connection: Any, statement: str, document: str) -> str:
    """Run the statement, whose one parameter is the document; gives the one text it answers."""
    kind = _kind(connection)
    if kind == "psycopg":
        cursor = psycopg.Cursor(connection, row_factory=tuple_row)
        return _text(cursor.execute(statement.format("%s"), [document]).fetchone())
    if kind == "sqlalchemy":
        return str(connection.execute(*_with_sqlalchemy(statement, document)).scalar_one())
    if kind == "django":
        with connection.cursor() as cursor:
            cursor.execute(statement.format("%s"), [document])
            return _text(cursor.fetchone())
    if kind in _AWAITED:
        raise BadInput("this connection has to be awaited: use aenqueue or afinish with it")
    raise BadInput(
        f"{kind} is no connection that can be used here; it must be one of psycopg 3, asyncpg, "
        "SQLAlchemy or Django to PostgreSQL, and no pool, engine or cursor"
    )


async def asend(connection: Any, statement: str, document: str) -> str:
    """The same for a connection that is awaited."""
    kind = _kind(connection)
    if kind == "async psycopg":
        cursor = psycopg.AsyncCursor(connection, row_factory=tuple_row)
        await cursor.execute(statement.format("%s"), [document])
        return _text(await cursor.fetchone())
    if kind == "asyncpg":
        return str(await connection.fetchval(statement.format("$1"), document))
    if kind == "async sqlalchemy":
        answer = await connection.execute(*_with_sqlalchemy(statement, document))
        return str(answer.scalar_one())
    return send(connection, statement, document)


_AWAITED = ("async psycopg", "asyncpg", "async sqlalchemy")


def _kind(connection: object) -> str:
    """By the module of its class: what is not imported here need not be installed."""
    if isinstance(connection, psycopg.Connection):
        return "psycopg"
    if isinstance(connection, psycopg.AsyncConnection):
        return "async psycopg"
    if getattr(connection, "vendor", None) == "postgresql":
        return "django"
    modules = "".join(f"{base.__module__}." for base in type(connection).__mro__)
    # A pool or an engine could do it as well, but on whichever connection is free.
    if "asyncpg." in modules and hasattr(connection, "is_in_transaction"):
        return "asyncpg"
    if "sqlalchemy." in modules and hasattr(connection, "in_transaction"):
        return "async sqlalchemy" if "sqlalchemy.ext.asyncio." in modules else "sqlalchemy"
    return _named(connection)


def _named(connection: object) -> str:
    kind = type(connection)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _with_sqlalchemy(statement: str, document: str) -> tuple[Any, dict[str, str]]:
    from sqlalchemy import text  # noqa: PLC0415 - only those who use it have it

    return text(statement.format(":document")), {"document": document}


def _text(row: tuple[Any, ...] | None) -> str:
    assert row is not None
    return str(row[0])
