"""Reaching a server, and telling its troubles in our words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec
import psycopg
from psycopg import errors
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.postgres import adapters as default_adapters
from psycopg.pq import Format, TransactionStatus

from stoker.errors import (
    BadInput,
    StokerError,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
)
from stoker.store.urls import read_patience

__all__ = ["BINARY", "AdaptersMap", "Dumper", "default_adapters"]

BINARY = Format.BINARY
DRIVER = f"psycopg {psycopg.__version__}"
Cursor = psycopg.Cursor[tuple[Any, ...]]
Call = list[bool]
"""Of which one thing is taken by whoever ends it: who made it, or who gives it up."""
Arrive = Callable[[], None]
"""Waits for the answers to all statements that were sent."""

_OUR_WORDS = ("STK01", "STK02")
DEFAULT_SCHEMA = "stoker"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")

_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_PATIENTLY = (
    "SELECT set_config('lock_timeout', '30s', true), "
    "set_config('idle_in_transaction_session_timeout', '30s', true)"
)
# A server that is gone, or a cut cable, is to be noticed within seconds, not hours.
_PATIENCE = "5"
_WISHES = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "fallback_application_name": "stoker",
}
# A standby would be of no use: the driver goes on to the next host.
_OF_SEVERAL = {"target_session_attrs": "read-write"}
_LEAST_SECONDS_TO_CONNECT = 2


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """One of ours: whoever looks after them sees what is under way."""

    call: Call = []  # noqa: RUF012 - nothing is ever added to a call
    verdict = ""
    """Why it was cut."""


class Address(NamedTuple):
    """Where the jobs are: how to reach the server, and the schema they have there."""

    conninfo: str
    schema: str
    listens: bool
    """Whether wake-ups may be waited for with LISTEN, which needs a connection of one's own."""
    shown: str
    """The address as it may be shown: without a password."""
    patience: float
    """Seconds for which a server that gives no sign of life is waited for."""


def read_url(url: str) -> Address:
    """What a URL says.

    >>> read_url("postgresql://ann:secret@db.example/shop?schema=jobs").shown
    'postgresql://ann@db.example/shop?schema=jobs'
    """
    parts = urlsplit(url)
    said = dict(parse_qsl(parts.query))
    schema, listen = said.pop("schema", DEFAULT_SCHEMA), said.pop("listen", "yes")
    if not _NAME.fullmatch(schema):
        raise BadInput(f"{schema!r} is no name for a schema; use letters, digits and underscores")
    patience = read_patience(said.pop("patience", _PATIENCE), least=1.0)
    if listen not in ("yes", "no"):
        raise BadInput(f"listen={listen} says nothing; write listen=yes or listen=no")
    rest = parts._replace(query=urlencode(said, quote_via=quote)).geturl()
    try:
        given = conninfo_to_dict(rest)
    except psycopg.ProgrammingError as error:
        raise BadInput(
            f"cannot read the URL of the store ({str(error).strip()}); write "
            "postgresql://user:password@host:port/database, with ?schema=name if you like"
        ) from None
    seconds = max(math.ceil(patience), _LEAST_SECONDS_TO_CONNECT)
    wishes = {"connect_timeout": str(seconds), **_WISHES}
    if "," in str(given.get("host", "")):
        wishes |= _OF_SEVERAL
    unsaid = {name: value for name, value in wishes.items() if name not in given}
    conninfo = make_conninfo(rest, client_encoding="UTF8", **unsaid)
    return Address(conninfo, schema, listen == "yes", _shown(url), patience)


def _shown(url: str) -> str:
    parts = urlsplit(url)
    who, at, where = parts.netloc.rpartition("@")
    options = [(name, value) for name, value in parse_qsl(parts.query) if name != "password"]
    netloc = who.partition(":")[0] + at + where
    query = urlencode(options, quote_via=quote, safe="/")
    return parts._replace(netloc=netloc, query=query).geturl()


def connect(address: Address, adapters: AdaptersMap | None = None) -> Connection:
    """A connection on which the driver prepares nothing: it may go through a pooler, whose
    connections serve somebody else in between."""
    context = None if adapters is None else _Context(adapters)
    return Connection.connect(
        address.conninfo,
        autocommit=True,
        prepare_threshold=None,
        cursor_factory=psycopg.RawCursor,
        context=context,
    )


class _Context:
    """The form in which psycopg takes adapters for a new connection."""

    connection = None

    def __init__(self, adapters: AdaptersMap) -> None:
        self.adapters = adapters


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Whole when this ends, or without a trace. Nobody waits for ever, neither we for others'
    locks nor others for ours, should this process be halted."""
    try:
        connection.execute(_BEGIN)
        connection.execute(_PATIENTLY)
        yield
        connection.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise


@contextmanager
def sent_ahead(connection: Connection) -> Iterator[Arrive]:
    """A transaction whose statements share round trips, from the first to the commit: they wait for
    no answer until what this gives is called. Before that no rows can be fetched."""
    try:
        with together(connection) as arrive:
            connection.execute(_BEGIN)
            connection.execute(_PATIENTLY)
            yield arrive
            connection.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise


def _roll_back(connection: Connection) -> None:
    if not connection.closed and not is_idle(connection):
        with suppress(psycopg.Error):
            connection.execute("ROLLBACK")


@contextmanager
def together(connection: Connection) -> Iterator[Arrive]:
    """Statements that travel together: in one round trip and, unless there is one, one transaction
    of their own. An error among them is raised without the driver's remarks about the others.

    What this gives waits for the answers to those that were sent so far. It marks the end of a
    message, as a pooler expects it; the driver, if it were left to fetch by itself, would not."""
    pipeline = connection.pipeline()
    entered = pipeline.__enter__()
    try:
        yield entered.sync
    except BaseException:
        with suppress(psycopg.Error):
            pipeline.__exit__(None, None, None)
        raise
    pipeline.__exit__(None, None, None)


def is_idle(connection: Connection) -> bool:
    """Can it be used for something new? One that is closed can not."""
    return connection.pgconn.transaction_status == TransactionStatus.IDLE


RETRIED = (errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation)
"""Somebody else was faster; from the beginning it may well go through."""


class NotThisWay(Exception):
    """The short way is closed: the store is sealed, or some job has moved on. Nothing happened."""


class ShortWay:
    """Tells what our own routines say from all other troubles."""

    def __enter__(self) -> None:
        """It is open, as far as is known."""

    def __exit__(self, _kind: object, error: BaseException | None, _where: object) -> None:
        if isinstance(error, psycopg.Error) and error.sqlstate in _OUR_WORDS:
            raise NotThisWay from error


class Troubles:
    """Turns the server's and the driver's errors into ours, each saying what to do."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def __enter__(self) -> None:
        """So far all is well."""

    def __exit__(self, _kind: object, error: BaseException | None, _where: object) -> None:
        if isinstance(error, psycopg.Error):
            raise _told(self._shown, error) from error
        if isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
            raise StoreCorrupt(f"{self._shown} holds what Stoker never wrote ({error})") from error


_TOLD: tuple[tuple[tuple[type[psycopg.Error], ...], type[StokerError], str], ...] = (
    (
        (errors.DiskFull, errors.OutOfMemory, errors.ConfigurationLimitExceeded),
        StoreFull,
        "has no room left; nothing of this call was written. Free some space and try again",
    ),
    (
        (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege),
        StoreReadOnly,
        "cannot be written: is it a standby, or has the user no rights to the schema?",
    ),
    (
        (errors.LockNotAvailable, errors.QueryCanceled, errors.IdleInTransactionSessionTimeout),
        StoreLocked,
        "made us wait too long; end the transaction that holds what is needed, and try again",
    ),
    (
        (*RETRIED,),
        StoreLocked,
        "is so busy with the same jobs that this call did not get through; try again",
    ),
    (
        (errors.UndefinedTable, errors.UndefinedFunction, errors.InvalidSchemaName),
        StoreUnavailable,
        "has lost the tables of Stoker while they were in use; open the store again",
    ),
    (
        (errors.IntegrityError,),
        StoreCorrupt,
        "refused what contradicts its own rules; its tables were changed by somebody else",
    ),
)


def is_misunderstanding(error: StoreError) -> bool:
    """Was it that the server knows nothing of what it was told to use?"""
    return isinstance(error.__cause__, psycopg.ProgrammingError)


def is_of_no_more_use(error: BaseException | None) -> bool:
    """Does the error tell that its connection leads to a server that is no longer the right one?"""
    return isinstance(error, errors.ReadOnlySqlTransaction)


# The driver sends whole numbers beyond 64 bits as numerics, which no function of ours takes.
_TAKES_NUMERIC = re.compile(r"[(,] ?numeric\b")


def _is_overflow(error: psycopg.Error, said: str) -> bool:
    if isinstance(error, errors.UndefinedFunction):
        return _TAKES_NUMERIC.search(said) is not None
    return isinstance(error, errors.NumericValueOutOfRange)


def _told(shown: str, error: psycopg.Error) -> StokerError:
    said = _said(error)
    if _is_overflow(error, said):
        return BadInput(
            f"{shown} cannot reckon with a number as large as one of this call; nothing of it was "
            f"written. Give a smaller one ({said})"
        )
    for kinds, ours, words in _TOLD:
        if isinstance(error, kinds):
            return ours(f"{shown} {words} ({said})")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreUnavailable(
            f"{shown} cannot be reached, or the connection was lost before the answer came "
            f"({said}); check the address and the server, and try again"
        )
    return StoreError(f"PostgreSQL failed at {shown}: {said}")


def _said(error: psycopg.Error) -> str:
    """What the server said; of what the library says about connecting, the last line tells most."""
    lines = (error.diag.message_primary or str(error)).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__
