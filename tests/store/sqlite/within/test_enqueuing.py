"""Enqueuing in transactions of the caller's own, on the store's own file."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from stoker import Stoker
from stoker.desk import Twin
from stoker.errors import BadInput, Duplicate, StoreMoved
from stoker.kernel.job import Job, State
from stoker.kernel.policy import Policy
from stoker.kernel.queue import Order, QueueSettings
from stoker.store.seal import Seal, sealed
from stoker.store.sqlite import SqliteStore
from tests.engines import START
from tests.store.outsiders import HOUR, queued
from tests.store.sqlite.busy_day import desk_at
from tests.store.sqlite.within.connections import (
    Kind,
    anywhere,
    assert_balanced,
    effects,
    kinds,
    make_effects,
    of_python,
    plain,
    run,
)


@kinds
def test_a_job_is_there_when_the_transaction_commits(kind: Kind, app: Stoker, path: Path) -> None:
    task = app.task(name="work", queue="mail")(lambda order: order)
    ear = app.desk.store.bell.listen()
    with kind.opened(path) as connection:
        job = task.within(connection).options(key="ann").enqueue(7)
        assert queued(app.desk) == 0
        assert ear.wait(0.05) == set()
    assert ear.wait(10) == {"mail"}
    ear.close()
    assert (job.job.key, job.job.payload) == ("ann", b'{"order":7}')
    assert [each.id for each in app.desk.dispatch.claim(["mail"])] == [job.id]


@kinds
def test_a_job_is_never_there_when_it_does_not(kind: Kind, app: Stoker, path: Path) -> None:
    task = app.task(name="work", queue="mail", timeout="1h")(lambda order: order)
    app.configure("mail", key_capacity=1)
    with kind.opened(path) as connection:
        task.within(connection).options(key="k").enqueue(7)
        if kind.library == "apsw":
            connection.execute("ROLLBACK; BEGIN")
        elif hasattr(connection, "set_rollback"):
            connection.set_rollback(True)
        else:
            connection.rollback()
    assert queued(app.desk) == 0
    assert app.desk.dispatch.claim(["mail"]) == []
    task.enqueue(8)
    assert_balanced(app.desk.store)


@anywhere
def test_many_calls_come_into_being_together(kind: Kind, app: Stoker, path: Path) -> None:
    task = app.task(name="work")(lambda order: order)
    with kind.opened(path) as connection:
        app.enqueue_many([task.call(n) for n in range(30)], within=connection)
        asyncio.run(app.aenqueue_many([task.call(30)], within=connection))
    assert queued(app.desk) == 31
    assert_balanced(app.desk.store)


@anywhere
def test_calls_keep_to_the_transaction_of_their_task(kind: Kind, app: Stoker, path: Path) -> None:
    task = app.task(name="work")(lambda order: order)
    with kind.opened(path) as connection:
        within = task.within(connection)
        app.enqueue_many([within.call(1), within.options(rank=1).call(2)])
        asyncio.run(app.aenqueue_many([within.call(3)]))
        app.enqueue_many([within.call(4), task.call(5)], within=connection)
        assert queued(app.desk) == 0
        with pytest.raises(BadInput, match="within another or none; enqueue them apart"):
            app.enqueue_many([within.call(6), task.call(7)])
    assert queued(app.desk) == 5


@plain
def test_a_twin_is_told_and_leaves_the_transaction_as_it_was(
    kind: Kind, store: SqliteStore, path: Path
) -> None:
    desk = desk_at(store)
    there = desk.intake.enqueue(Job("q", unique_key="u")).id
    make_effects(kind, path)
    with kind.opened(path) as connection:
        run(connection, "INSERT INTO effect VALUES (1)")
        within = desk.intake.enqueue_within
        with pytest.raises(Duplicate):
            within(connection, [Job("q"), Job("q", unique_key="u")])
        jobs = [Job("q", unique_key="u"), Job("q", ref="r"), Job("q", ref="r")]
        placed = within(connection, jobs, twin=Twin.RETURN)
        assert [(each.id == there, each.fresh) for each in placed] == [
            (True, False),
            (False, True),
            (False, False),
        ]
    assert (queued(desk), effects(kind, path)) == (2, 1)


@of_python
def test_a_twin_begins_no_transaction(kind: Kind, store: SqliteStore, path: Path) -> None:
    desk = desk_at(store)
    desk.intake.enqueue(Job("q", unique_key="u"))
    with closing(sqlite3.connect(path)) as connection:
        with pytest.raises(Duplicate):
            desk.intake.enqueue_within(connection, [Job("q", unique_key="u")])
        assert not connection.in_transaction
        desk.intake.enqueue_within(connection, [Job("q")])
        assert connection.in_transaction, "a write begins one, as ever with this module"


@plain
def test_without_a_transaction_a_connection_that_begins_none_commits_at_once(
    kind: Kind, store: SqliteStore, path: Path
) -> None:
    desk, ear = desk_at(store), store.bell.listen()
    opened: Any = apsw.Connection(str(path))
    if kind.library == "sqlite3":
        opened = sqlite3.connect(path, isolation_level=None)
    with closing(opened) as connection:
        desk.intake.enqueue_within(connection, [Job("q"), Job("q", key="k")])
        assert ear.wait(0) == {"q"}
        assert not connection.in_transaction
    ear.close()
    assert queued(desk) == 2
    assert_balanced(store)


@plain
def test_a_job_is_placed_by_the_settings_of_its_queue(
    kind: Kind, store: SqliteStore, path: Path
) -> None:
    desk = desk_at(store)
    desk.control.configure("q", QueueSettings(key_capacity=1, order=Order.TIME_RANK))
    policy = Policy(timeout=HOUR, repeat="every 1h")
    with kind.opened(path) as connection:
        desk.intake.enqueue_within(
            connection,
            [Job("q", key="k", rank=n, due_at=START - 9 + n, policy=policy) for n in (3, 1, 2)],
        )
    assert [job.rank for job in desk.dispatch.claim(["q"], 5)] == [1]
    assert_balanced(store)


@plain
def test_a_sealed_store_takes_no_jobs_this_way_either(
    kind: Kind, store: SqliteStore, path: Path
) -> None:
    desk = desk_at(store)
    desk.intake.enqueue(Job("q"))
    (job,) = desk.dispatch.claim(["q"])
    store.transact([sealed(Seal("the jobs have moved"))])
    with kind.opened(path) as connection:
        desk.report.finish_within(connection, job)  # what runs may still end
    with (
        pytest.raises(StoreMoved, match="the jobs have moved"),
        kind.opened(path) as connection,
    ):
        desk.intake.enqueue_within(connection, [Job("q")])
    assert store.get([job.id])[job.id].state is State.FINISHED
