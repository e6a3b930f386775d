"""The schema: made once however many come at once, and refusing what can never be."""

from __future__ import annotations

from contextlib import ExitStack

import psycopg
import pytest

from stoker.desk import Desk
from stoker.kernel.job import Job, State
from stoker.kernel.queue import DEFAULTS
from stoker.store import Filter
from stoker.store.postgres import PostgresStore
from stoker.store.postgres.schema import within
from stoker.watch import run_chores
from tests.engines import VirtualClock
from tests.store.sqlite.busy_day import STEPS, desk_at
from tests.store.sqlite.process import Process

OPENING = """
from stoker.store.open import open_store
say("ready")
wait_for_a_word()
store = open_store(sys.argv[1])
say(f"{store.migrated} {Desk(store).intake.enqueue(Job('q')).fresh}")
"""

_NOTHING = "state = 0, token = NULL, waits_for = NULL, ended_at = NULL"
_LAWFUL = {
    "queued": "state = 0",
    "running": "state = 1, token = 7",
    "waiting": "state = 2, waits_for = 'children'",
    "finished": "state = 3, ended_at = 1",
}
CONTRADICTIONS = {
    **{
        f"{_LAWFUL[state]}, {fact}": "job_contradicting"
        for state, facts in {
            "queued": ("token = 7", "session = 7", "waits_for = 'children'", "ended_at = 1"),
            "running": ("waits_for = 'children'", "ended_at = 1", "joined = true"),
            "waiting": ("token = 7", "session = 7", "ended_at = 1", "joined = true"),
            "finished": ("token = 7", "session = 7", "waits_for = 'children'", "joined = true"),
        }.items()
        for fact in facts
    },
    "state = 0, joined = true, lane = ''": "job_contradicting",
    **{f"state = {state}": "job_contradicting" for state in (1, 2, 3, 4, 5)},
    "state = 6, ended_at = 1": "job_contradicting",
    **dict.fromkeys(
        ("state = -1", "open_children = -1", "attempt = -1", "weight = -1"), "job_contradicting"
    ),
    "unique_key = 'same'": "job_unique",
    "ref = 'same'": "job_ref",
}


def test_of_many_processes_that_come_at_once_one_makes_the_schema(url: str) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(Process(OPENING, url)) for _ in range(4)]
        for process in processes:
            assert process.hear() == "ready"
        for process in processes:
            process.tell("go")
        told = sorted(process.hear() for process in processes)
    assert told == ["(0, 1) True", "(1, 1) True", "(1, 1) True", "(1, 1) True"]


def test_two_schemas_of_one_database_know_nothing_of_each_other(url: str) -> None:
    first, second = PostgresStore(url), PostgresStore(f"{url}_other")
    Desk(first).intake.enqueue(Job("q"))
    assert [view.name for view in first.survey()] == ["q"]
    assert second.survey() == []
    drop = f'DROP SCHEMA "{second.address.schema}" CASCADE'
    second._use(lambda connection: connection.execute(drop))
    first.close()
    second.close()


def test_the_server_itself_refuses_what_can_never_be(
    store: PostgresStore, connection: psycopg.Connection
) -> None:
    Desk(store).intake.enqueue_many([Job("q"), Job("q")])
    for facts, rule in CONTRADICTIONS.items():
        update = f"UPDATE stoker.job SET {facts}"  # noqa: S608
        with pytest.raises(psycopg.IntegrityError) as refused:
            connection.execute(within(store.address.schema, update))
        assert refused.value.diag.constraint_name == rule, facts


def test_the_server_lets_a_job_be_in_every_state(
    store: PostgresStore, connection: psycopg.Connection
) -> None:
    Desk(store).intake.enqueue(Job("q"))
    for facts in _LAWFUL.values():
        update = f"UPDATE stoker.job SET {_NOTHING}"  # noqa: S608
        connection.execute(within(store.address.schema, update))
        update = f"UPDATE stoker.job SET {facts}"  # noqa: S608
        connection.execute(within(store.address.schema, update))


def test_nothing_is_left_of_jobs_that_are_gone(
    store: PostgresStore, clock: VirtualClock, connection: psycopg.Connection
) -> None:
    desk = desk_at(store)
    for step in STEPS:
        step(desk, clock)
    for job in store.find(Filter(states=(State.QUEUED, State.WAITING), limit=1000)):
        desk.control.cancel(job.id)
    for name in ("mail", "moved", "family", "child"):
        desk.control.configure(name, DEFAULTS)
    for _ in range(3):
        clock.pass_(60 * 24 * 3600)
        run_chores(desk.clerk, "watch")
    store.tidy()
    left = {
        table: connection.execute(
            within(store.address.schema, f"SELECT count(*) FROM stoker.{table}")  # noqa: S608
        ).fetchone()
        for table in ("job", "queue", "delta", "head", "news", "session", "lock", "note")
    }
    assert {table: rows for table, rows in left.items() if rows != (0,)} == {}
