"""From every schema that was ever released to the newest, once, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from stoker.errors import StoreError
from stoker.kernel.job import Job, State
from stoker.store import Filter
from stoker.store.files import migrations
from stoker.store.sqlite import SqliteStore, schema
from tests.engines import VirtualClock
from tests.model.sqlite_books import assert_books_balance
from tests.store.sqlite.busy_day import desk_at
from tests.store.sqlite.process import Process
from tests.store.sqlite.released import JOBS_OF_SAMPLES, PACKAGE, SAMPLES, write_released
from tests.store.sqlite.witness import contents_found

NEWEST = max(migrations(PACKAGE))


def asked(path: Path, question: str) -> object:
    connection = apsw.Connection(os.fspath(path))
    answer = connection.execute(question).get
    connection.close()
    return answer


def plan_migrations(monkeypatch: pytest.MonkeyPatch, planned: Mapping[int, str]) -> None:
    monkeypatch.setattr(schema, "migrations", lambda package: planned)


# -- from every release --------------------------------------------------------------------


def test_every_schema_has_its_sample() -> None:
    assert SAMPLES.keys() == JOBS_OF_SAMPLES.keys() == migrations(PACKAGE).keys()


@pytest.mark.parametrize("version", SAMPLES)
def test_a_file_of_any_release_is_brought_to_the_newest_schema_with_all_its_jobs(
    version: int, path: Path, clock: VirtualClock
) -> None:
    write_released(version, path)
    store = SqliteStore(path, clock=clock)
    found = {job.name: (job.state, job.payload) for job in store.find(Filter())}
    assert found == JOBS_OF_SAMPLES[version]
    store.close()
    assert asked(path, "PRAGMA user_version") == NEWEST
    assert_books_balance(os.fspath(path))


@pytest.mark.parametrize("version", SAMPLES)
def test_work_goes_on_in_a_file_of_any_release(
    version: int, path: Path, clock: VirtualClock
) -> None:
    write_released(version, path)
    store = SqliteStore(path, clock=clock)
    desk = desk_at(store)
    claimed = desk.dispatch.claim(["mail"], 10)
    assert [job.name for job in claimed] == ["keyed", "plain"]
    for job in claimed:
        desk.report.finish(job)
    desk.intake.enqueue(Job("mail"))
    (view,) = store.survey()
    assert (view.counts[State.FINISHED], view.counts[State.QUEUED]) == (3, 1)
    store.close()
    assert_books_balance(os.fspath(path))


@pytest.mark.parametrize("version", SAMPLES)
def test_a_file_of_any_release_ends_up_like_a_new_one(
    version: int, path: Path, tmp_path: Path
) -> None:
    write_released(version, path)
    SqliteStore(path).close()
    SqliteStore(tmp_path / "new.db").close()
    tables = "SELECT name, sql FROM sqlite_schema ORDER BY name"
    assert asked(path, tables) == asked(tmp_path / "new.db", tables)


# -- once ----------------------------------------------------------------------------------


def test_a_file_that_is_up_to_date_is_not_migrated_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteStore(path).close()
    plan_migrations(monkeypatch, dict.fromkeys(migrations(PACKAGE), "SELECT no_such_thing"))
    SqliteStore(path).close()
    assert asked(path, "PRAGMA user_version") == NEWEST


def test_only_what_is_missing_is_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SqliteStore(path).close()
    done = dict.fromkeys(migrations(PACKAGE), "SELECT no_such_thing")
    plan_migrations(monkeypatch, {**done, NEWEST + 1: "CREATE TABLE more (x) STRICT;"})
    with pytest.raises(StoreError, match="missing datatype"):
        SqliteStore(path)
    plan_migrations(monkeypatch, {**done, NEWEST + 1: "CREATE TABLE more (x INTEGER) STRICT;"})
    SqliteStore(path).close()
    assert asked(path, "PRAGMA user_version") == NEWEST + 1
    assert asked(path, "SELECT count(*) FROM more") == 0


def test_processes_that_open_a_new_file_at_the_same_moment_all_succeed(tmp_path: Path) -> None:
    open_them = """
        from pathlib import Path
        folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
        say("ready")
        wait_for_a_word()
        for number in range(rounds):
            store = SqliteStore(folder / f"{number}.db")
            Desk(store).intake.enqueue(Job("q"))
            store.close()
        say("done")
    """
    rounds = 10
    with ExitStack() as stack:
        others = [stack.enter_context(Process(open_them, tmp_path, rounds)) for _ in range(3)]
        assert [other.hear() for other in others] == ["ready"] * 3
        for other in others:
            other.tell("go")
        assert [other.hear() for other in others] == ["done"] * 3
    counts = [asked(tmp_path / f"{n}.db", "SELECT queued FROM queue") for n in range(rounds)]
    assert counts == [3] * rounds


# -- whole or not at all -------------------------------------------------------------------


@pytest.mark.parametrize(
    "broken",
    [
        "CREATE TABLE more (x); INSERT INTO nowhere VALUES (1);",
        "ALTER TABLE job ADD COLUMN more TEXT; DELETE FROM job; SELECT no_such_thing;",
        "UPDATE counter SET value = 0; CREATE TABLE job (x);",
    ],
)
def test_a_migration_that_fails_halfway_leaves_the_file_as_it_was(
    broken: str, path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(path, clock=clock)
    desk_at(store).intake.enqueue(Job("q"))
    store.close()
    held = contents_found(path, clock)
    tables = asked(path, "SELECT name, sql FROM sqlite_schema ORDER BY name")
    with monkeypatch.context() as patch:
        plan_migrations(patch, {**migrations(PACKAGE), NEWEST + 1: broken})
        with pytest.raises(StoreError):
            SqliteStore(path, clock=clock)
    assert asked(path, "PRAGMA user_version") == NEWEST
    assert asked(path, "SELECT name, sql FROM sqlite_schema ORDER BY name") == tables
    assert contents_found(path, clock) == held


def test_of_two_migrations_the_first_stays_when_the_second_fails(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteStore(path).close()
    more = {NEWEST + 1: "CREATE TABLE more (x);", NEWEST + 2: "SELECT no_such_thing;"}
    plan_migrations(monkeypatch, {**migrations(PACKAGE), **more})
    with pytest.raises(StoreError):
        SqliteStore(path)
    assert asked(path, "PRAGMA user_version") == NEWEST + 1


def test_a_new_file_whose_first_migration_failed_is_still_new(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        plan_migrations(patch, {1: "CREATE TABLE job (x); SELECT no_such_thing;"})
        with pytest.raises(StoreError):
            SqliteStore(path)
    store = SqliteStore(path)
    assert desk_at(store).intake.enqueue(Job("q")).id == 1
    store.close()
