"""Leases and due times go by the server's clock, whatever the clocks of other machines say."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.store import Lost
from stoker.store.postgres import PostgresStore
from stoker.store.postgres.clock import ServerClock

HOUR = 3600 * 1_000_000
SECOND = 1_000_000


def server_time(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp()) * 1000000").fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture(params=[-HOUR, HOUR], ids=["slow", "fast"])
def astray(request: pytest.FixtureRequest, url: str) -> Iterator[PostgresStore]:
    """A store in a process whose own clock is an hour wrong."""
    with pytest.MonkeyPatch.context() as patch:
        true_time = time.time_ns
        patch.setattr(time, "time_ns", lambda: true_time() + request.param * 1000)
        patch.setattr(time, "time", lambda: (true_time() + request.param * 1000) / 1e9)
        store = PostgresStore(url)
        yield store
        store.close()


def test_now_is_what_the_server_says(astray: PostgresStore, connection: psycopg.Connection) -> None:
    before = server_time(connection)
    now = astray.now()
    assert before - SECOND < now <= server_time(connection)


def test_a_job_enqueued_now_is_due_at_once(astray: PostgresStore) -> None:
    desk = Desk(astray)
    for _ in range(20):
        placed = desk.intake.enqueue(Job("q"))
        assert [job.id for job in desk.dispatch.claim(["q"])] == [placed.id]


def test_workers_with_different_clocks_do_not_take_each_other_for_dead(
    astray: PostgresStore, url: str
) -> None:
    desk, other = Desk(astray), PostgresStore(url)
    desk.intake.enqueue(Job("q"))
    session = desk.dispatch.open_session(ttl=60 * SECOND)
    (job,) = desk.dispatch.claim(["q"], session=session, visibility=30 * SECOND)
    assert other.find(Lost()) == astray.find(Lost()) == []
    assert other.beat(session, 60 * SECOND).alive
    assert abs((job.started_at or 0) - other.now()) < 10 * SECOND
    other.close()


def test_of_many_answers_the_quickest_tells_the_time_best() -> None:
    clock = ServerClock()
    clock.hear(5_000_000)
    quick = clock()
    clock.hear(4_000_000)  # this one was a second on its way
    assert quick <= clock() < quick + SECOND
    clock.hear(9_000_000)
    assert 9_000_000 <= clock() < 9_000_000 + SECOND


def test_a_clock_that_was_set_back_is_believed_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steady = [1_000_000_000]
    monkeypatch.setattr(time, "monotonic_ns", lambda: steady[0])
    clock = ServerClock()
    clock.hear(100 * SECOND)
    clock.hear(50 * SECOND)
    assert clock() == 100 * SECOND
    steady[0] += 6 * 10**9
    clock.hear(56 * SECOND)
    assert clock() == 56 * SECOND
