"""`stoker check` and `stoker migrate` on a server."""

from __future__ import annotations

import psycopg
import pytest
from click.testing import CliRunner

from stoker.desk import Desk
from stoker.doors.cli.root import root
from stoker.kernel.job import Job
from stoker.store.finding import Level
from stoker.store.postgres import PostgresStore
from stoker.store.postgres.schema import within
from tests.servers.postgres import Server, binaries


def found(store: PostgresStore, level: Level) -> dict[str, str]:
    return {each.subject: each.text for each in store.check() if each.level is level}


def test_a_server_that_keeps_its_promises_has_nothing_to_be_warned_of() -> None:
    server = Server(next(iter(binaries().values())), settings=())
    store = PostgresStore(server.url("stoker"))
    Desk(store).intake.enqueue(Job("q"))
    assert found(store, Level.WARNING) == found(store, Level.PROBLEM) == {}
    fine = found(store, Level.FINE)
    assert fine["durability"].startswith("nothing acknowledged is lost")
    assert fine["wake-ups"] == "workers are woken by NOTIFY"
    assert fine["schema"] == "version 1, brought up from 0 just now"
    store.close()
    server.remove()


def test_settings_that_may_lose_jobs_are_told(store: PostgresStore) -> None:
    warnings = [each.text for each in store.check() if each.level is Level.WARNING]
    for setting in ("fsync is off", "full_page_writes is off", "synchronous_commit is off"):
        assert any(setting in text for text in warnings)


def test_counts_that_do_not_agree_are_told(
    store: PostgresStore, connection: psycopg.Connection
) -> None:
    Desk(store).intake.enqueue(Job("q"))
    connection.execute(within(store.address.schema, "UPDATE stoker.delta SET queued = 2"))
    assert found(store, Level.PROBLEM) == {
        "books": "the counts of the queue q do not agree with its jobs"
    }


def test_a_long_transaction_and_many_dead_rows_are_told(
    store: PostgresStore, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.store.postgres.check._LONG_SECONDS", -1)
    monkeypatch.setattr("stoker.store.postgres.check._MANY_DEAD", -1)
    monkeypatch.setattr("stoker.store.postgres.check._DEAD_SHARE", -1)
    Desk(store).intake.enqueue(Job("q"))
    store._use(lambda connection: connection.execute(f'ANALYZE "{store.address.schema}".job'))
    with psycopg.connect(server.url()) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM pg_class")
        warnings = found(store, Level.WARNING)
        assert f"process {other.info.backend_pid} of the server" in warnings["transactions"]
        assert "dead rows beside" in warnings["dead rows"]


def test_the_command_line_makes_a_store_and_looks_at_it(url: str) -> None:
    run = CliRunner()
    refused = run.invoke(root, ["check", "--store", url])
    assert refused.exit_code != 0
    assert "make it with `stoker migrate`" in refused.output
    assert "was made, with schema 1" in run.invoke(root, ["migrate", "--store", url]).output
    assert "has schema 1: up to date" in run.invoke(root, ["migrate", "--store", url]).output
    assert "version 1, up to date" in run.invoke(root, ["check", "--store", url]).output
