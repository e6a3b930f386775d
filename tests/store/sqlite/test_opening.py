"""Opening files: new ones, those of others, damaged ones, and those one may not write."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest

from stoker.errors import StoreCorrupt, StoreError, StoreReadOnly, StoreTooNew, StoreUnavailable
from stoker.kernel.job import Job
from stoker.kernel.policy import Policy
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.library import NAMES
from tests.engines import SECOND, VirtualClock
from tests.store.sqlite.busy_day import desk_at
from tests.store.sqlite.disk import Write, disk_in_use
from tests.store.sqlite.witness import Contents, contents

NOBODY = 65534


def run(path: Path, *statements: str) -> None:
    """Statements of some other program on a file."""
    connection = apsw.Connection(os.fspath(path))
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


def use(path: Path) -> None:
    """Open a file as a store and do a bit of work in it."""
    store = SqliteStore(path)
    desk = desk_at(store)
    placed = desk.intake.enqueue(Job("q"))
    assert [job.id for job in desk.dispatch.claim(["q"])] == [placed.id]
    store.close()


# -- new files -----------------------------------------------------------------------------


def test_an_empty_file_is_as_good_as_none(path: Path) -> None:
    path.touch()
    use(path)


@pytest.mark.parametrize("name", ["with space.db", "50%25?mode=ro#x.db", "Grüße-火.db", ":memory:"])
def test_a_file_has_the_very_name_it_was_given(name: str, tmp_path: Path) -> None:
    use(tmp_path / name)
    assert (tmp_path / name).stat().st_size > 4096


def test_only_its_owner_may_read_or_write_what_belongs_to_a_store(
    path: Path, tmp_path: Path, clock: VirtualClock
) -> None:
    mask = os.umask(0)
    try:
        store = SqliteStore(path, clock=clock)
        desk_at(store).intake.enqueue(Job("q"))
        ear = store.bell.listen()
        modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in tmp_path.iterdir()}
        ear.close()
        store.close()
    finally:
        os.umask(mask)
    assert modes == {
        "jobs.db": 0o600,
        "jobs.db-wal": 0o600,
        "jobs.db-shm": 0o600,
        "jobs.db-gate": 0o600,
        "jobs.db-bell": 0o700,
    }


def test_to_open_a_file_writes_nothing_to_it(path: Path) -> None:
    use(path)
    with disk_in_use() as disk:
        SqliteStore(path).close()
    assert [event for event in disk.tape if isinstance(event, Write)] == []


def test_a_folder_that_is_not_there_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="folder does not exist; make it first"):
        SqliteStore(tmp_path / "nowhere" / "jobs.db")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot open"):
        SqliteStore(tmp_path)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "note.txt").touch()
    with pytest.raises(StoreUnavailable, match="Not a directory"):
        SqliteStore(tmp_path / "note.txt" / "jobs.db")


def test_a_place_without_shared_memory_is_refused(path: Path) -> None:
    usual = apsw.vfs_names()[0]
    apsw.set_default_vfs("unix-dotfile")
    try:
        with pytest.raises(StoreUnavailable, match="put it on a local disk"):
            SqliteStore(path)
    finally:
        apsw.set_default_vfs(usual)


# -- files of others -----------------------------------------------------------------------

FOREIGN = {
    "a plain one": ["CREATE TABLE song (title)", "INSERT INTO song VALUES ('Gloria')"],
    "one with a log": ["PRAGMA journal_mode = WAL", "CREATE TABLE song (title)"],
    "one with a version only": ["PRAGMA user_version = 1"],
    "one with an id of its own": ["PRAGMA application_id = 7", "CREATE TABLE song (title)"],
}


@pytest.mark.parametrize("statements", FOREIGN.values(), ids=FOREIGN)
def test_a_file_of_some_other_program_is_refused_and_left_as_it_is(
    statements: list[str], path: Path
) -> None:
    run(path, *statements)
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="not one of Stoker's; choose another file"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_file_of_a_newer_version_is_refused_and_left_as_it_is(path: Path) -> None:
    use(path)
    run(path, "PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match=r"has schema 99, .* upgrade Stoker"):
        SqliteStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", [b"hello", b"To whom it may concern\n" * 1000])
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(text: bytes, path: Path) -> None:
    path.write_bytes(text)
    with pytest.raises(StoreCorrupt, match="no SQLite file"):
        SqliteStore(path)
    assert path.read_bytes() == text


def test_a_refused_file_is_not_held(path: Path) -> None:
    run(path, *FOREIGN["a plain one"])
    with pytest.raises(StoreCorrupt):
        SqliteStore(path)
    run(path, "PRAGMA locking_mode = EXCLUSIVE", "DROP TABLE song", "VACUUM")
    use(path)


# -- damaged files -------------------------------------------------------------------------


def a_used_file(path: Path, clock: VirtualClock) -> Contents:
    """No payload is so long that it has pages of its own: damage there SQLite cannot see."""
    store = SqliteStore(path, clock=clock)
    desk = desk_at(store)
    desk.intake.enqueue_many(
        [Job("q", payload=bytes(500), key=f"{n % 3}", ref=f"{n}") for n in range(200)]
    )
    desk.intake.enqueue(Job("r", unique_key="only", policy=Policy(timeout=SECOND)))
    for job in desk.dispatch.claim(["q", "r"], 50):
        desk.report.finish(job)
    held = contents(store)
    store.close()
    return held


def contents_or_trouble(path: Path, clock: VirtualClock) -> Contents | StoreError:
    """What can be read from a file, if those who read it are not told that they cannot."""
    try:
        store = SqliteStore(path, clock=clock)
    except StoreError as error:
        return error
    try:
        return contents(store)
    except StoreError as error:
        return error
    finally:
        store.close()


@pytest.mark.parametrize("keep", [0.25, 0.5, 0.75])
def test_a_file_that_was_cut_short_is_refused(keep: float, path: Path, clock: VirtualClock) -> None:
    a_used_file(path, clock)
    os.truncate(path, int(path.stat().st_size * keep) // 4096 * 4096)
    with pytest.raises(StoreCorrupt, match=r"restore it from a backup, .* \.recover"):
        SqliteStore(path)


@pytest.mark.parametrize("garbage", [b"\x00", b"\xff", b"not what was here. "])
def test_a_damaged_page_is_never_taken_for_data(
    garbage: bytes, path: Path, clock: VirtualClock
) -> None:
    held = a_used_file(path, clock)
    sound = path.read_bytes()
    page = (garbage * 4096)[:4096]
    told = 0
    for start in range(4096, len(sound), 4096):
        path.write_bytes(sound[:start] + page + sound[start + 4096 :])
        found = contents_or_trouble(path, clock)
        assert found == held or isinstance(found, StoreCorrupt), start
        told += found != held
    assert told > 20


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE job SET policy = 77",
        "UPDATE job SET policy = 'words'",
        "UPDATE queue SET settings = '[1, 2'",
        "UPDATE job SET queue = 77",
        "UPDATE job SET payload = NULL",
        "UPDATE job SET name = CAST(x'ff' AS TEXT)",
    ],
)
def test_contents_that_contradict_themselves_are_told(damage: str, path: Path) -> None:
    use(path)
    run(path, damage)
    store = SqliteStore(path)
    with pytest.raises(StoreCorrupt):
        contents(store)
    store.close()


# -- files one may not write ---------------------------------------------------------------


@contextmanager
def without_privileges() -> Iterator[Path]:
    """A folder of one's own, as somebody whom permissions bind."""
    with TemporaryDirectory() as folder:
        if os.geteuid() != 0:
            yield Path(folder)
            return
        os.chown(folder, NOBODY, -1)
        try:
            os.seteuid(NOBODY)
        except OSError:
            pytest.skip("root that cannot be somebody else is bound by no permission")
        try:
            if not os.access(folder, os.W_OK, effective_ids=True):
                pytest.skip("nobody but root gets at the folder for temporary files")
            yield Path(folder)
        finally:
            os.seteuid(0)


@pytest.mark.parametrize("library", NAMES)
def test_a_file_one_may_only_read_is_refused(library: str) -> None:
    with without_privileges() as folder:
        use(folder / "jobs.db")
        (folder / "jobs.db").chmod(0o400)
        with pytest.raises(StoreReadOnly, match="check the permissions"):
            SqliteStore(folder / "jobs.db", library=library)


@pytest.mark.parametrize("gone", [[], ["jobs.db-gate"], ["jobs.db", "jobs.db-gate"]])
def test_a_folder_one_may_only_read_is_refused(gone: list[str]) -> None:
    with without_privileges() as folder:
        use(folder / "jobs.db")
        for name in gone:
            (folder / name).unlink()
        folder.chmod(0o500)
        try:
            with pytest.raises(StoreReadOnly, match="check the permissions"):
                SqliteStore(folder / "jobs.db")
        finally:
            folder.chmod(0o700)
