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

CONTRADICTIONS = {
    "known_state": "state = 6, ended_at = 1",
    "token_while_running": "state = 1",
    "waits_while_waiting": "waits_for = 'children'",
    "end_when_ended": "state = 3",
    "session_while_running": "session = 7",
    "nothing_below_zero": "open_children = -1",
    "job_unique": "unique_key = 'same'",
    "job_ref": "ref = 'same'",
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


@pytest.mark.parametrize("rule", CONTRADICTIONS)
def test_the_server_itself_refuses_what_can_never_be(
    rule: str, store: PostgresStore, connection: psycopg.Connection
) -> None:
    Desk(store).intake.enqueue_many([Job("q"), Job("q")])
    update = f"UPDATE stoker.job SET {CONTRADICTIONS[rule]}"  # noqa: S608
    with pytest.raises(psycopg.IntegrityError) as refused:
        connection.execute(within(store.address.schema, update))
    assert refused.value.diag.constraint_name == rule


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
