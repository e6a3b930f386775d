"""From every schema that was ever released to the newest, once, whole or not at all; and what
becomes of processes that are older than the schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from stoker import Stoker
from stoker.errors import StoreError, StoreTooNew
from stoker.kernel.job import Job, State
from stoker.store import Filter
from stoker.store.files import migrations
from stoker.store.postgres import PostgresStore, schema
from stoker.store.postgres.schema import PACKAGE, within
from tests.engines import VirtualClock
from tests.model.postgres_books import assert_books_balance
from tests.servers.postgres import PATIENCE, Server, Stores
from tests.store.postgres.released import JOBS_OF_SAMPLES, SAMPLES, plan, write_released
from tests.store.sqlite.busy_day import STEPS, desk_at
from tests.store.sqlite.process import Process
from tests.store.sqlite.witness import contents

NEWEST = max(migrations(PACKAGE))
MORE = "ALTER TABLE stoker.job ADD COLUMN more text NOT NULL DEFAULT 'none'"
BROKEN = {
    "at once": "SELECT no_such_thing",
    "behind a table": "CREATE TABLE stoker.more (x text); INSERT INTO stoker.nowhere VALUES (1)",
    "behind the end of all jobs": "; ".join([MORE, "DELETE FROM stoker.job", "SELECT 1 / 0"]),
    "in a routine": "DROP FUNCTION stoker.fold(); UPDATE stoker.queue SET queued = 'many'",
}

# Whatever a schema is made of, in words that do not tell which schema it is.
_MADE_OF = """
SELECT 'column', attrelid::regclass::text, attname::text, format_type(atttypid, atttypmod),
    attnotnull::text, pg_get_expr(adbin, adrelid)
FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE relnamespace = $1::regnamespace AND attnum > 0 AND NOT attisdropped
UNION ALL SELECT 'index', pg_get_indexdef(oid), '', '', '', reloptions::text FROM pg_class
WHERE relnamespace = $1::regnamespace AND relkind = 'i'
UNION ALL SELECT 'table', relname::text, relpersistence::text, relkind::text, '', reloptions::text
FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind <> 'i'
UNION ALL SELECT 'routine', pg_get_functiondef(oid), '', '', '', '' FROM pg_proc
WHERE pronamespace = $1::regnamespace
"""

MIGRATING = """
from stoker.store.open import open_store
from stoker.store.postgres import schema
steps = {**schema.migrations(schema.PACKAGE)}
schema.migrations = lambda _: {**steps, max(steps) + 1: sys.argv[2]}
"""
OPENING = f"""{MIGRATING}
say("ready")
wait_for_a_word()
store = open_store(sys.argv[1])
say(f"{{store.migrated}} {{Desk(store).intake.enqueue(Job('mail')).fresh}}")
"""
DYING = f"""{MIGRATING}
def halt(name):
    say("in the middle")
    wait_for_a_word()
schema._routine = halt
open_store(sys.argv[1])
"""


def asked(store: PostgresStore, question: str) -> Any:
    """The one value that a look past the store finds."""
    with psycopg.connect(store.address.conninfo) as connection:
        row = connection.execute(within(store.address.schema, question).encode()).fetchone()
        return row[0] if row else None


def made_of(connection: psycopg.Connection, url: str) -> set[tuple[str, ...]]:
    """Everything that a schema is made of."""
    name = url.rpartition("=")[2]
    rows = psycopg.RawCursor(connection).execute(_MADE_OF, [name]).fetchall()
    return {tuple(str(fact).replace(name, "stoker") for fact in row) for row in rows}


def spend_a_day(store: PostgresStore, clock: VirtualClock) -> None:
    desk = desk_at(store)
    for step in STEPS:
        step(desk, clock)


# -- from every release --------------------------------------------------------------------


def test_every_schema_has_its_sample() -> None:
    assert SAMPLES.keys() == JOBS_OF_SAMPLES.keys() == migrations(PACKAGE).keys()


@pytest.mark.parametrize("version", SAMPLES)
def test_a_schema_of_any_release_is_brought_to_the_newest_with_all_its_jobs(
    version: int, url: str, clock: VirtualClock
) -> None:
    write_released(version, url)
    store = PostgresStore(url, clock=clock)
    assert store.migrated == (version, NEWEST)
    found = [(job.name, job.state, job.payload) for job in store.find(Filter())]
    assert found == JOBS_OF_SAMPLES[version]
    assert asked(store, "SELECT version FROM stoker.stoker_version") == NEWEST
    assert_books_balance(store)
    store.close()


@pytest.mark.parametrize("version", SAMPLES)
def test_work_goes_on_in_a_schema_of_any_release(
    version: int, url: str, clock: VirtualClock
) -> None:
    write_released(version, url)
    store = PostgresStore(url, clock=clock)
    desk = desk_at(store)
    claimed = [*desk.dispatch.claim(["mail"], 10), *desk.dispatch.claim(["flood"], 10)]
    assert [job.name for job in claimed] == ["keyed", "plain", *["drop"] * 4]
    for job in claimed:
        desk.report.finish(job)
    assert desk.intake.enqueue(Job("mail")).id == 9
    counts = {view.name: view.counts for view in store.survey()}
    assert counts["flood"][State.FINISHED] == 4
    assert (counts["mail"][State.FINISHED], counts["mail"][State.QUEUED]) == (3, 1)
    assert_books_balance(store)
    store.close()


@pytest.mark.parametrize("version", SAMPLES)
def test_a_schema_of_any_release_ends_up_like_a_new_one(
    version: int, url: str, server: Server, connection: psycopg.Connection
) -> None:
    write_released(version, url)
    PostgresStore(url).close()
    stores = Stores(server.url())
    with stores.schema() as other:
        PostgresStore(other).close()
        new = made_of(connection, other)
    stores.close()
    assert {kind for kind, *_ in new} == {"column", "index", "table", "routine"}
    assert made_of(connection, url) == new


# -- once ----------------------------------------------------------------------------------


def test_a_schema_that_is_up_to_date_is_not_migrated_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    PostgresStore(url).close()
    plan(monkeypatch, dict.fromkeys(migrations(PACKAGE), BROKEN["at once"]))
    store = PostgresStore(url)
    assert store.migrated == (NEWEST, NEWEST)
    store.close()


def test_only_what_is_missing_is_run_and_all_that_is_there_stays(
    url: str, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(url, clock=clock)
    spend_a_day(store, clock)
    held = contents(store)
    store.close()
    done = dict.fromkeys(migrations(PACKAGE), BROKEN["at once"])
    gone = "DROP FUNCTION stoker.fold()"  # routines are made anew, whatever a step does to them
    plan(monkeypatch, {**done, NEWEST + 1: MORE, NEWEST + 2: gone})
    newer = PostgresStore(url, clock=clock)
    assert newer.migrated == (NEWEST, NEWEST + 2)
    assert contents(newer) == held
    assert asked(newer, "SELECT DISTINCT more FROM stoker.job") == "none"
    spend_a_day(newer, clock)
    newer._run("fold")
    assert_books_balance(newer)
    newer.close()


def test_of_many_processes_that_find_an_older_schema_one_migrates_it(url: str) -> None:
    PostgresStore(url).close()
    with ExitStack() as stack:
        processes = [stack.enter_context(Process(OPENING, url, MORE)) for _ in range(4)]
        for process in processes:
            assert process.hear() == "ready"
        for process in processes:
            process.tell("go")
        told = sorted(process.hear() for process in processes)
    up_to_date = f"({NEWEST + 1}, {NEWEST + 1}) True"
    assert told[0] == f"({NEWEST}, {NEWEST + 1}) True"
    assert told[1:] == [up_to_date] * 3


# -- whole or not at all -------------------------------------------------------------------


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_migration_that_fails_halfway_leaves_the_schema_as_it_was(
    broken: str,
    url: str,
    clock: VirtualClock,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = PostgresStore(url, clock=clock)
    spend_a_day(store, clock)
    held, made = contents(store), made_of(connection, url)
    with monkeypatch.context() as patch:
        plan(patch, {**migrations(PACKAGE), NEWEST + 1: MORE, NEWEST + 2: broken})
        with pytest.raises(StoreError):
            PostgresStore(url, clock=clock)
    assert (contents(store), made_of(connection, url)) == (held, made)
    spend_a_day(store, clock)
    assert_books_balance(store)
    store.close()
    plan(monkeypatch, {**migrations(PACKAGE), NEWEST + 1: MORE, NEWEST + 2: "SELECT 1"})
    mended = PostgresStore(url, clock=clock)
    assert mended.migrated == (NEWEST, NEWEST + 2)
    mended.close()


def test_a_new_schema_whose_first_migration_failed_is_still_new(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        plan(patch, {1: "CREATE TABLE stoker.job (x text); SELECT no_such_thing"})
        with pytest.raises(StoreError):
            PostgresStore(url)
    store = PostgresStore(url)
    assert store.migrated == (0, NEWEST)
    assert desk_at(store).intake.enqueue(Job("q")).id == 1
    store.close()


def test_a_process_that_is_killed_while_it_migrates_leaves_no_trace_and_blocks_nobody(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    PostgresStore(url).close()
    with Process(DYING, url, MORE) as process:
        assert process.hear() == "in the middle"
        process.kill()
    plan(monkeypatch, {**migrations(PACKAGE), NEWEST + 1: MORE})
    store = PostgresStore(url)
    assert store.migrated == (NEWEST, NEWEST + 1)
    store.close()


# -- processes that are older than the schema ----------------------------------------------


def migrated_beside(url: str, step: str) -> None:
    """What a process of the next version does when it comes."""
    with pytest.MonkeyPatch.context() as patch:
        plan(patch, {**migrations(PACKAGE), NEWEST + 1: step})
        PostgresStore(url).close()


def test_an_older_process_goes_on_beside_a_step_that_only_adds(
    url: str, clock: VirtualClock
) -> None:
    store = PostgresStore(url, clock=clock)
    spend_a_day(store, clock)
    migrated_beside(url, f"{MORE}; CREATE INDEX job_more ON stoker.job (more)")
    spend_a_day(store, clock)
    assert_books_balance(store)
    store.close()


TAKEN_AWAY: dict[str, tuple[str, Callable[[PostgresStore], object]]] = {
    "a table": (
        "ALTER TABLE stoker.lock RENAME TO held",
        lambda store: store.hold("chores", "me", 1),
    ),
    "a column": ("ALTER TABLE stoker.note RENAME value TO said", lambda store: store.notes()),
    "a routine": ("DROP FUNCTION stoker.fold()", lambda store: store._run("fold")),
}


@pytest.mark.parametrize(("step", "call"), TAKEN_AWAY.values(), ids=TAKEN_AWAY)
def test_an_older_process_that_no_longer_gets_along_is_told_to_be_upgraded(
    url: str, step: str, call: Callable[[PostgresStore], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(url)
    monkeypatch.setattr(schema, "_ROUTINES", ("common",))  # those of the next version are others
    migrated_beside(url, step)
    with pytest.raises(StoreTooNew, match=rf"has schema {NEWEST + 1}, .* upgrade Stoker"):
        call(store)
    store.close()


def test_a_worker_that_no_longer_gets_along_says_so_in_its_log(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Stoker(url)
    task = app.task(name="note")(len)
    worker = app.worker(concurrency=2)
    worker.start()
    try:
        task.enqueue("once").wait(timeout=PATIENCE)
        migrated_beside(url, "ALTER TABLE stoker.session RENAME expires_at TO ends_at")
        said = re.compile(rf"has schema {NEWEST + 1}, .* upgrade Stoker")
        with psycopg.connect(url.partition("&")[0]) as connection:
            while not said.search(caplog.text):
                connection.execute("SELECT pg_sleep(0.05)")
    finally:
        worker.stop()
        app.close()
