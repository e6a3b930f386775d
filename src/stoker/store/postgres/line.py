"""Questions put to the server in its own binary form, past the driver's adaptation.

For the shortest ways: the driver, left to adapt values and to describe what comes back, would take
longer than the server does.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

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


def ask(connection: Connection, question: Question) -> bytes:
    """The answer; the question is a transaction of its own."""
    line = connection.pgconn
    _put(line, question)
    return _value(_arriving(line, _ANSWER))


def ask_both(connection: Connection, question: Question, then: Question) -> bytes:
    """The answer to the first of two questions, each a transaction of its own, that go to the
    server in one message. It comes to the second whatever has become of the first."""
    line = connection.pgconn
    line.enter_pipeline_mode()
    try:
        for each in (question, then):
            _put(line, each)
            line.pipeline_sync()
        return _value(_arriving(line, 2 * (_ANSWER + _END)))
    finally:
        with suppress(psycopg.Error):  # what is not over yet makes the pool drop the connection
            line.exit_pipeline_mode()


def heard(connection: Connection) -> list[str]:
    """What was rung since the last time on a channel that the connection listens to."""
    line = connection.pgconn
    line.consume_input()
    said = []
    while (notice := line.notifies()) is not None:
        said.append(notice.extra.decode())
    return said


def _put(line: PGconn, question: Question) -> None:
    statement, facts, kinds = question
    line.send_query_params(statement, facts, kinds, [BINARY] * len(facts), BINARY)


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
    if result is None:
        raise psycopg.OperationalError("the server gave no answer")
    if result.status != ExecStatus.TUPLES_OK:
        raise errors.error_from_result(result)
    return result.get_value(0, 0) or b""
