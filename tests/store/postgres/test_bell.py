"""Wake-ups between processes: heard at once, told seldom, and never needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace

import psycopg
import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job
from stoker.store.postgres import PostgresStore, herald
from stoker.store.postgres.bell import channel_of
from tests.servers.postgres import Server


@pytest.fixture
def other(url: str) -> Iterator[PostgresStore]:
    """A store in what might be another process."""
    store = PostgresStore(url)
    yield store
    store.close()


def heard_until(wanted: set[str], store: PostgresStore) -> Iterator[set[str]]:
    """Rings as they come, until all that are wanted have come."""
    ear = store.bell.listen()
    yield set()
    heard: set[str] = set()
    while not wanted <= heard:
        heard |= ear.wait(10)
    ear.close()
    yield heard


def test_a_new_job_is_heard_by_the_others(store: PostgresStore, other: PostgresStore) -> None:
    hearing = heard_until({"q", "r"}, other)
    next(hearing)
    Desk(store).intake.enqueue_many([Job("q"), Job("r")])
    assert next(hearing) == {"q", "r"}


def test_names_that_do_not_fit_into_one_message_come_in_several(
    store: PostgresStore, other: PostgresStore
) -> None:
    names = {f"{n:03d}" + "☃" * 500 for n in range(20)}
    hearing = heard_until(names, other)
    next(hearing)
    Desk(store).intake.enqueue_many([Job(name) for name in sorted(names)])
    assert next(hearing) == names


def test_a_name_that_fits_into_no_message_keeps_nobody_from_working(
    store: PostgresStore, other: PostgresStore
) -> None:
    hearing = heard_until({"short"}, other)
    next(hearing)
    Desk(store).intake.enqueue_many([Job("x" * 9000), Job("short")])
    assert next(hearing) == {"short"}


def test_a_flood_of_rings_is_few_notifications(store: PostgresStore, server: Server) -> None:
    channel = channel_of(store.address.schema)
    names = [f"q{number}" for number in range(2000)]
    with psycopg.connect(server.url(), autocommit=True) as listener:
        listener.execute(f'LISTEN "{channel}"')
        for name in names:
            store.bell.ring([name])
        store.bell.close()
        told = [json.loads(notice.payload) for notice in listener.notifies(timeout=1)]
    assert {name for _, *few in told for name in few} == set(names)
    assert len(told) < len(names) / 10


def test_rings_that_come_seldom_are_told_at_once_and_many_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[list[str]] = []
    clock = [0.0]
    monkeypatch.setattr(herald, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    crier = herald.Herald(lambda names: told.append(list(names)))
    for number in range(5):
        clock[0] += 0.006
        crier.announce({f"q{number}"})
        assert told[-1] == [f"q{number}"]
    for number in range(5, 10):
        crier.announce({f"q{number}"})
    assert len(told) == 5
    crier.close()
    assert told[5:] == [["q5", "q6", "q7", "q8", "q9"]]


def test_words_of_strangers_are_not_understood_and_do_no_harm(
    store: PostgresStore, other: PostgresStore, connection: psycopg.Connection
) -> None:
    hearing = heard_until({"q"}, other)
    next(hearing)
    for word in ("", "nonsense", "{}", "[]", "[1]", '["somebody"]'):
        connection.execute("SELECT pg_notify(%s, %s)", [channel_of(store.address.schema), word])
    Desk(store).intake.enqueue(Job("q"))
    assert next(hearing) == {"q"}


def test_without_listening_work_is_found_by_looking(url: str, store: PostgresStore) -> None:
    deaf = PostgresStore(f"{url}&listen=no")
    hearing = heard_until({"q"}, deaf)
    next(hearing)
    Desk(store).intake.enqueue(Job("q"))
    assert next(hearing) == {"q"}
    deaf.close()


def test_a_listener_whose_connection_is_ended_listens_again(
    store: PostgresStore, other: PostgresStore, connection: psycopg.Connection
) -> None:
    hearing = heard_until({"q"}, other)
    next(hearing)
    assert other.bell.comes_through()
    ear = other.bell._ear._connection
    assert ear is not None
    connection.execute("SELECT pg_terminate_backend(%s)", [ear.info.backend_pid])
    desk = Desk(store)
    listener = other.bell.listen()
    heard: set[str] = set()
    while "q" not in heard:
        desk.intake.enqueue(Job("q"))
        heard = listener.wait(0.2)
    assert next(hearing) >= {"q"}
