"""Questions put to the server in its own binary form, past the driver's adaptation.

For the shortest ways: the driver, left to adapt values and to describe what comes back, would take
longer than the server does.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple
from weakref import WeakSet

import psycopg
from psycopg import errors
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from stoker.store.postgres.driver import BINARY, Connection

TEXT, BYTES, SMALL, WHOLE, FLAG = 25, 17, 21, 20, 16
"""What the server calls its types: text, bytea, smallint, bigint, boolean."""

_ANSWER, _END = 2, 1
"""How many results there are: an answer and nothing behind it, and the end of a message."""


class Question(NamedTuple):
    """A statement that gives one value, with its parameters and their types."""

    statement: bytes
    facts: Sequence[bytes | None]
    kinds: Sequence[int]


def ask(
    connection: Connection, question: Question, then: Question | None = None, name: bytes = b""
) -> bytes:
    """The answer; the question is a transaction of its own, and prepared if it has a name.

    Another can go along in the same message: the server comes to it when the first is over,
    whatever has become of that.
    """
    line = connection.pgconn
    if then is None:
        _put(line, question, name)
        return _value(_arriving(line, _ANSWER))
    line.enter_pipeline_mode()
    try:
        _put(line, question, name)
        line.pipeline_sync()
        _put(line, then)
        line.pipeline_sync()
        return _value(_arriving(line, 2 * (_ANSWER + _END)))
    finally:
        with suppress(psycopg.Error):  # what is not over yet makes the pool drop the connection
            line.exit_pipeline_mode()


class Standing:
    """A question that comes so often that connections have it prepared: else a third of the
    server's work would be to read it.

    A pooler may give us another connection of its own each time. One that does not keep what was
    prepared is found out by its first refusal; from then on the whole question is sent. Whatever
    stays behind is called by a name that stands for just this text.
    """

    def __init__(self, statement: str, kinds: Sequence[int]) -> None:
        self._statement = statement.encode()
        self._kinds = kinds
        self._name = b"stoker_" + sha256(self._statement).hexdigest()[:16].encode()
        self._knowing: WeakSet[Connection] = WeakSet()
        self._is_kept = True

    def ask(
        self, connection: Connection, facts: Sequence[bytes | None], then: Question | None = None
    ) -> bytes:
        """The answer with these parameters; another question can go along."""
        question = Question(self._statement, facts, self._kinds)
        if self._is_kept:
            try:
                self._prepare(connection)
                return ask(connection, question, then, self._name)
            except errors.InvalidSqlStatementName:
                self._is_kept = False
        return ask(connection, question, then)

    def _prepare(self, connection: Connection) -> None:
        if connection in self._knowing:
            return
        line = connection.pgconn
        line.send_prepare(self._name, self._statement, self._kinds)
        result = _arriving(line, _ANSWER)
        with suppress(errors.DuplicatePreparedStatement):  # by somebody like us
            _check(result, ExecStatus.COMMAND_OK)
        self._knowing.add(connection)


def heard(connection: Connection) -> list[tuple[str, str]]:
    """What was rung since the last time on the channels that the connection listens to."""
    line = connection.pgconn
    line.consume_input()
    said = []
    while (notice := line.notifies()) is not None:
        said.append((notice.relname.decode(), notice.extra.decode()))
    return said


def _put(line: PGconn, question: Question, name: bytes = b"") -> None:
    statement, facts, kinds = question
    formats = [BINARY] * len(facts)
    if name:
        line.send_query_prepared(name, facts, formats, BINARY)
    else:
        line.send_query_params(statement, facts, kinds, formats, BINARY)


def _arriving(line: PGconn, count: int) -> PGresult | None:
    """Send what was put; the first of so many results, when all are there."""
    news = select.poll()
    news.register(line.socket, select.POLLIN | select.POLLOUT)
    while line.flush():  # a large question goes in portions
        news.poll()
        line.consume_input()
    news.modify(line.socket, select.POLLIN)
    first, *_ = [_arrived(line, news) for _ in range(count)]
    return first


def _arrived(line: PGconn, news: select.poll) -> PGresult | None:
    while line.is_busy():
        news.poll()
        line.consume_input()
    return line.get_result()


def _value(result: PGresult | None) -> bytes:
    return _check(result, ExecStatus.TUPLES_OK).get_value(0, 0) or b""


def _check(result: PGresult | None, wanted: ExecStatus) -> PGresult:
    if result is None:
        raise psycopg.OperationalError("the server gave no answer")
    if result.status != wanted:
        raise errors.error_from_result(result)
    return result
