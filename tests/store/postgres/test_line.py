"""Questions past the driver: what is prepared may be gone, and what fails leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from psycopg import errors

from stoker.desk import Desk
from stoker.store import Filter
from stoker.store.postgres import PostgresStore
from stoker.store.postgres.driver import Connection, connect, is_idle, read_url
from stoker.store.postgres.line import WHOLE, Question, Standing, ask
from tests.servers.postgres import Server
from tests.store.conformance.acts import put, seen


@pytest.fixture
def connection(server: Server) -> Iterator[Connection]:
    with closing(connect(read_url(server.url()))) as connection:
        yield connection


SEVEN = (7).to_bytes(8, "big")
FAILING = Question(b"SELECT 1 / (8 - $1)", [(8).to_bytes(8, "big")], (WHOLE,))


def test_jobs_are_taken_in_where_nothing_stays_prepared(store: PostgresStore) -> None:
    """As behind a pooler, which gives us another connection of its own each time."""
    desk = Desk(store)
    ids = [put(desk)]
    for _ in range(2):
        with store._pool.connection() as connection:
            connection.execute("DEALLOCATE ALL")
        ids.append(put(desk))
    assert [job.id for job in store.find(Filter())] == ids


def test_what_somebody_like_us_has_prepared_will_do(connection: Connection) -> None:
    for _ in range(2):
        like_us = Standing("SELECT $1 + 1", (WHOLE,))
        assert [int.from_bytes(like_us.ask(connection, [SEVEN]), "big") for _ in range(2)] == [8, 8]


def test_a_question_that_fails_is_over(connection: Connection) -> None:
    with pytest.raises(errors.DivisionByZero):
        ask(connection, FAILING)
    assert is_idle(connection)


def test_what_goes_along_comes_after_a_question_that_fails(
    connection: Connection,
) -> None:
    connection.execute("CREATE TEMP SEQUENCE met")
    with pytest.raises(errors.DivisionByZero):
        ask(connection, FAILING, Question(b"SELECT nextval('met')", (), ()))
    assert connection.execute("SELECT last_value, is_called FROM met").fetchone() == (1, True)


def test_a_question_may_be_larger_than_what_goes_out_at_once(store: PostgresStore) -> None:
    payload, desk = b"x" * 20_000_000, Desk(store)
    assert seen(desk, put(desk, payload=payload)).payload == payload
