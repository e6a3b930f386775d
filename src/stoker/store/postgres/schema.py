"""Bringing a schema to the form this version speaks, one numbered step at a time."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from stoker.errors import StoreCorrupt, StoreTooNew, StoreUnfit
from stoker.store.files import migrations, statements
from stoker.store.postgres.driver import Address, Connection, transaction

PACKAGE = "stoker.store.postgres.sql"

# In this order: the later ones use the earlier. They are made anew whenever a step was taken.
_ROUTINES = (
    *("common", "place", "settle", "claim", "standing"),
    *("lanes", "traces", "lanewise", "books", "watch", "within"),
)
_SQL = statements(PACKAGE, "schema.sql")
_OLDEST_SERVER = 130_000
_ENCODINGS = ("UTF8", "SQL_ASCII")
_OURS = re.compile(r"\bstoker\.(?=\w)")


@cache
def named(schema: str, file: str) -> dict[str, str]:
    """The statements of one file, for the tables of a schema."""
    return {name: within(schema, text) for name, text in statements(PACKAGE, file).items()}


@cache
def within(schema: str, text: str) -> str:
    """A statement that speaks of `stoker.` tables, for those of a schema."""
    return _OURS.sub(f'"{schema}".', text)


def migrate(connection: Connection, address: Address) -> tuple[int, int]:
    """Run what is missing; returns the version that was found and the one there is now.

    Under a lock in the database, so that of many who come at once one does it.
    """
    _check_server(connection, address)
    found, newest = version(connection, address), max(migrations(PACKAGE))
    if found < newest:
        with transaction(connection):
            connection.execute(_SQL["lock"], [address.schema])
            found = version(connection, address)
            _take_steps(connection, address.schema, found)
    return found, newest


def version(connection: Connection, address: Address) -> int:
    """The schema's version, 0 if there is none; refuse what is not ours or from the future."""
    ours, others = connection.execute(_SQL["tables"], [address.schema]).fetchone() or (0, 0)
    if not ours and others:
        raise StoreCorrupt(
            f"the schema {address.schema} of {address.shown} holds tables of somebody else; "
            "choose another for the jobs with ?schema=name"
        )
    if not ours:
        return 0
    row = connection.execute(within(address.schema, _SQL["version"])).fetchone() or (0,)
    newest = max(migrations(PACKAGE))
    if row[0] > newest:
        raise StoreTooNew(
            f"{address.shown} has schema {row[0]}, this version of Stoker knows up to {newest}; "
            "upgrade Stoker, or use another schema with ?schema=name"
        )
    return int(row[0])


def _check_server(connection: Connection, address: Address) -> None:
    if connection.info.server_version < _OLDEST_SERVER:
        number = connection.info.server_version // 10_000
        raise StoreUnfit(f"{address.shown} is PostgreSQL {number}; Stoker needs 13 or newer")
    (encoding,) = connection.execute(_SQL["encoding"]).fetchone() or ("",)
    if encoding not in _ENCODINGS:
        raise StoreUnfit(
            f"the database of {address.shown} has the encoding {encoding}, which cannot hold "
            "every text; make one with: createdb --encoding=UTF8 --template=template0 NAME"
        )


def _take_steps(connection: Connection, schema: str, found: int) -> None:
    steps = {number: text for number, text in migrations(PACKAGE).items() if number > found}
    if not steps:
        return  # somebody else was faster
    (there,) = connection.execute(_SQL["there"], [schema]).fetchone() or (False,)
    if not there:
        connection.execute(f'CREATE SCHEMA "{schema}"')
    for text in steps.values():
        connection.execute(within(schema, text))
    for name in _ROUTINES:
        connection.execute(within(schema, _routine(name)))
    connection.execute(within(schema, _SQL["forget_version"]))
    connection.execute(within(schema, _SQL["write_version"]), [max(steps)])


def _routine(name: str) -> str:
    return resources.files(PACKAGE).joinpath(f"{name}.sql").read_text(encoding="utf-8")
