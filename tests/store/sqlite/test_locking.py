"""Who may write: one at a time, and nobody waits for ever."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from stoker.errors import (
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnfit,
)
from stoker.kernel.job import Job, State
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.driver import File, Sync
from stoker.store.sqlite.gate import Gate
from stoker.store.sqlite.library import library_named
from tests.engines import VirtualClock
from tests.store.sqlite.busy_day import desk_at
from tests.store.sqlite.process import Process

SOON = 0.05
LATE = 60.0
SHARED_BYTES = (510, 0x40000002)
"""Where SQLite keeps the locks of those who use a file: how many bytes, from which on."""


@contextmanager
def flocked(path: str) -> Iterator[None]:
    """Hold a gate as another process would: by a file of one's own."""
    file = os.open(path, os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(file)


@pytest.fixture
def hasty(path: Path, clock: VirtualClock) -> Iterator[SqliteStore]:
    """A store that does not wait long for anybody."""
    store = SqliteStore(path, clock=clock, gate_timeout=SOON, busy_timeout=SOON)
    yield store
    store.close()


# -- other programs ------------------------------------------------------------------------


def test_a_file_that_another_program_writes_to_is_locked_until_it_ends(
    hasty: SqliteStore,
) -> None:
    desk = desk_at(hasty)
    other = apsw.Connection(hasty.path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreLocked, match=r"another program holds .* end its transaction"):
        desk.intake.enqueue(Job("q"))
    other.execute("COMMIT")
    assert desk.intake.enqueue(Job("q")).id == 1
    other.close()


def test_nobody_who_looks_waits_for_a_writer(hasty: SqliteStore) -> None:
    desk_at(hasty).intake.enqueue(Job("q"))
    other = apsw.Connection(hasty.path)
    other.execute("BEGIN IMMEDIATE; UPDATE queue SET queued = 7")
    (view,) = hasty.survey()
    assert view.counts[State.QUEUED] == 1
    other.execute("ROLLBACK")
    other.close()


def test_a_second_store_in_a_process_does_not_take_the_locks_of_the_first(
    store: SqliteStore, clock: VirtualClock
) -> None:
    """Who could lock the whole file would take it for unused and remove its log."""
    SqliteStore(store.path, clock=clock).close()
    lock_all_of_it = """
        import fcntl
        with open(sys.argv[1], "r+b") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, *map(int, sys.argv[2:]))
            except OSError:
                say("in use")
            else:
                say("free")
    """
    with Process(lock_all_of_it, store.path, *SHARED_BYTES) as other:
        assert other.hear() == "in use"


# -- the gate ------------------------------------------------------------------------------


def test_who_waits_too_long_at_the_gate_is_told_who_holds_it(hasty: SqliteStore) -> None:
    hold_the_gate = """
        store = SqliteStore(sys.argv[1])
        with store._gate:
            say("held")
            wait_for_a_word()
        say("left")
        wait_for_a_word()
    """
    desk = desk_at(hasty)
    with Process(hold_the_gate, hasty.path) as other:
        assert other.hear() == "held"
        with pytest.raises(StoreLocked, match=f"process {other.pid} has held .*-gate"):
            desk.intake.enqueue(Job("q"))
        other.tell("leave")
        assert other.hear() == "left"
        hasty._gate._timeout = LATE  # the turn that was given up may still be in line
        assert desk.intake.enqueue(Job("q")).id == 1


def test_where_the_system_does_not_tell_the_holder_of_the_gate_has_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.store.sqlite.gate._ALL_LOCKS", tmp_path / "nowhere")
    path = os.fspath(tmp_path / "gate")
    first, second = Gate(path, SOON), Gate(path, SOON)
    with first, pytest.raises(StoreLocked, match=r"^another process has held "), second:
        pass
    first.close()
    second.close()


def test_the_gate_of_a_process_that_died_is_open(hasty: SqliteStore) -> None:
    die_inside = """
        store = SqliteStore(sys.argv[1])

        def stay_inside(connection):
            connection.execute("UPDATE counter SET value = 1000")
            say("inside")
            wait_for_a_word()

        store._write(stay_inside)
    """
    with Process(die_inside, hasty.path) as other:
        assert other.hear() == "inside"
        other.kill()
    assert desk_at(hasty).intake.enqueue(Job("q")).id == 1


def test_a_turn_that_was_given_up_does_not_open_the_gate_for_others(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "gate")
    gate, other = Gate(path, SOON), Gate(path, SOON)
    with flocked(path):
        for _ in range(3):
            with pytest.raises(StoreLocked), gate:
                pass
    gate._timeout = LATE  # the turns that were given up may still be in line
    for _ in range(3):
        with gate, pytest.raises(StoreLocked), other:
            pass
    gate.close()
    other.close()


def test_turns_that_come_are_taken_in_line(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "gate")
    patient, hasty = Gate(path, LATE), Gate(path, SOON)
    with Process(
        """
        from stoker.store.sqlite.gate import Gate
        gate = Gate(sys.argv[1], 60.0)
        with gate:
            say("held")
            wait_for_a_word()
        """,
        path,
    ) as other:
        assert other.hear() == "held"
        other.tell("leave")
        with patient, pytest.raises(StoreLocked, match=f"process {os.getpid()} has held"), hasty:
            pass
    patient.close()
    hasty.close()


# -- closing -------------------------------------------------------------------------------


def test_a_closed_store_says_so(path: Path, clock: VirtualClock) -> None:
    store = SqliteStore(path, clock=clock)
    store.close()
    with pytest.raises(StoreUnavailable, match="was closed; open the store again"):
        desk_at(store).intake.enqueue(Job("q"))
    with pytest.raises(StoreError, match="closed"):
        store.survey()


def test_a_closed_store_never_writes_into_the_file_that_came_after_it(
    path: Path, tmp_path: Path, clock: VirtualClock
) -> None:
    store = SqliteStore(path, clock=clock)
    number = store._gate._file
    store.close()
    innocent = os.open(tmp_path / "innocent", os.O_RDWR | os.O_CREAT)
    os.dup2(innocent, number)
    with pytest.raises(StoreUnavailable):
        desk_at(store).intake.enqueue(Job("q"))
    assert os.fstat(innocent).st_size == 0
    for file in {innocent, number}:
        os.close(file)


def test_to_close_twice_does_no_harm(path: Path, clock: VirtualClock) -> None:
    store = SqliteStore(path, clock=clock)
    store.close()
    store.close()


def test_the_last_one_out_leaves_a_single_file_with_everything_in_it(
    path: Path, tmp_path: Path, clock: VirtualClock
) -> None:
    first, last = SqliteStore(path, clock=clock), SqliteStore(path, clock=clock)
    desk_at(first).intake.enqueue(Job("q"))
    first.close()
    assert (tmp_path / "jobs.db-wal").exists()
    last.close()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["jobs.db", "jobs.db-gate"]


# -- words ---------------------------------------------------------------------------------


def the_file(library: str = "apsw") -> File:
    return File("the-file", library_named(library), Sync.FULL, busy_timeout=0)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EROFS, StoreReadOnly),
        (errno.EACCES, StoreReadOnly),
        (errno.EPERM, StoreReadOnly),
        (errno.ENOENT, StoreUnfit),
        (errno.EMFILE, StoreUnavailable),
    ],
)
def test_errors_of_the_system_are_told_in_our_words(number: int, kind: type[StoreError]) -> None:
    with pytest.raises(kind, match="the-file"), the_file().troubles():
        raise OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (apsw.FullError, StoreFull),
        (apsw.BusyError, StoreLocked),
        (apsw.ReadOnlyError, StoreReadOnly),
        (apsw.CantOpenError, StoreUnfit),
        (apsw.NoMemError, StoreError),
    ],
)
def test_errors_of_sqlite_are_told_in_our_words(
    error: type[apsw.Error], kind: type[StoreError]
) -> None:
    with pytest.raises(kind, match="the-file") as told, the_file().troubles():
        raise error("in its own words")
    assert type(told.value) is kind
