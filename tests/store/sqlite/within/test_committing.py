"""Who commits what others have enqueued, and who hears of it."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest

from stoker import Stoker
from stoker.errors import StoreLocked
from stoker.kernel.job import Job
from stoker.store.sqlite import SqliteStore, afterwards
from tests.store.outsiders import Spoilt, queued
from tests.store.sqlite.busy_day import desk_at
from tests.store.sqlite.process import Process
from tests.store.sqlite.within.connections import (
    Kind,
    assert_balanced,
    of_python,
    plain,
)

PLACING = """
import sqlite3
from stoker.store.sqlite import afterwards
afterwards._SHORTEST_PAUSE = afterwards._LONGEST_PAUSE = 600  # so that it looks when it ends
desk = Desk(SqliteStore(sys.argv[1], library="sqlite3"))
connection = sqlite3.connect(sys.argv[1])
desk.intake.enqueue_within(connection, [Job("q", key="k"), Job("q")])
say("enqueued")
if wait_for_a_word() == "commit":
    connection.commit()
"""

CLAIMING = """
desk = Desk(SqliteStore(sys.argv[1]))
ear = desk.store.bell.listen()
say("listening")
say(sorted(ear.wait(60)))
say(len(desk.dispatch.claim(["q"], 9)))
"""


@plain
def test_whoever_is_killed_before_its_commit_has_enqueued_nothing(
    kind: Kind, store: SqliteStore, path: Path
) -> None:
    with Process(PLACING, path) as caller:
        assert caller.hear() == "enqueued"
        caller.kill()
    desk = desk_at(store)
    assert queued(desk) == 0
    desk.intake.enqueue(Job("q", key="k"))
    assert len(desk.dispatch.claim(["q"], 9)) == 1
    assert_balanced(store)


def test_another_process_gets_the_jobs_when_they_are_committed(path: Path) -> None:
    SqliteStore(path).close()
    with Process(CLAIMING, path) as claimer, Process(PLACING, path) as caller:
        assert claimer.hear() == "listening"
        assert caller.hear() == "enqueued"
        caller.tell("commit")  # after which it ends at once, without closing anything
        assert claimer.hear() == "['q']"
        assert claimer.hear() == "2"


@plain
def test_a_store_that_is_closed_after_the_commit_has_rung(kind: Kind, url: str, path: Path) -> None:
    app, listener = Stoker(url), Stoker(url)
    ear = listener.desk.store.bell.listen()
    with kind.opened(path) as connection:
        app.task(name="work", queue="q")(lambda: None).within(connection).enqueue()
    app.close()
    assert ear.wait(0) == {"q"}
    assert "stoker-afterwards" not in [thread.name for thread in threading.enumerate()]
    ear.close()
    listener.close()


@plain
def test_what_is_rolled_back_is_not_waited_for_for_ever(
    kind: Kind, store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(afterwards, "_LONGEST", 0)
    with suppress(Spoilt), kind.opened(path) as connection:
        desk_at(store).intake.enqueue_within(connection, [Job("q")])
        raise Spoilt
    for thread in threading.enumerate():
        if thread.name == "stoker-afterwards":
            thread.join(10)
            assert not thread.is_alive()


AFTER_A_FORK = """
import os, sqlite3
desk = Desk(SqliteStore(sys.argv[1], library="sqlite3"))
connection = sqlite3.connect(sys.argv[1])
desk.intake.enqueue_within(connection, [Job("not committed")])
connection.rollback()
connection.close()
child = os.fork()
if not child:
    connection = sqlite3.connect(sys.argv[1])
    with connection:
        desk.intake.enqueue_within(connection, [Job("q")])
    desk.store.close()
    os._exit(0)
say(os.waitpid(child, 0)[1])
"""


def test_a_child_rings_for_what_it_commits(path: Path) -> None:
    with closing(SqliteStore(path)) as store, closing(store.bell.listen()) as ear:
        with Process(AFTER_A_FORK, path) as process:
            assert process.hear() == "0"
            assert "q" in ear.wait(0)
        assert queued(desk_at(store)) == 1


@of_python
def test_whoever_has_read_what_others_changed_since_is_told_to_begin_anew(
    kind: Kind, store: SqliteStore, path: Path
) -> None:
    desk = desk_at(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        desk.intake.enqueue(Job("q"))
        with pytest.raises(StoreLocked, match="BEGIN IMMEDIATE"):
            desk.intake.enqueue_within(connection, [Job("q")])
        connection.execute("ROLLBACK")
        desk.intake.enqueue_within(connection, [Job("q")])
    assert queued(desk) == 2
