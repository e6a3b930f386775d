"""The two libraries: which one is used, never both on one file, and what is different about them.

That they mean the same is told by the conformance tests and the seeded walks, which run over both.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from stoker.errors import BadInput, StoreCorrupt, StoreError, StoreLocked, StoreUnavailable
from stoker.kernel.job import Job
from stoker.store.finding import Level
from stoker.store.sqlite import SqliteStore
from tests.engines import VirtualClock
from tests.store.sqlite.busy_day import STEPS, desk_at
from tests.store.sqlite.witness import Contents, contents

NO_APSW = """
import sys
sys.modules["apsw"] = None
from stoker import Desk, Job, open_store
store = open_store("sqlite:///jobs.db")
Desk(store).intake.enqueue(Job("q"))
print(store.file.library.name, store.survey()[0].name)
"""


def opened(path: Path, **how: float) -> SqliteStore:
    return SqliteStore(path, library="sqlite3", **how)  # type: ignore[arg-type]


def test_without_apsw_the_library_of_python_is_used(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NO_APSW]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == "sqlite3 q\n"


def test_a_library_that_is_too_old_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 37, 2))
    with pytest.raises(StoreUnavailable, match=r"needs 3\.38 or newer; .*stoker\[sqlite\]"):
        opened(path)


def test_a_file_is_never_open_with_both_in_one_process(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(path)
    first = SqliteStore(path, library="apsw")
    with pytest.raises(BadInput, match=r"with apsw already.* same \?library="):
        opened(tmp_path / "link.db")
    SqliteStore(path, library="apsw").close()
    first.close()
    opened(path).close()


def test_what_one_has_written_the_other_reads(path: Path) -> None:
    clock, seen = VirtualClock(), list[Contents]()
    for number, step in enumerate(STEPS):
        library = ("apsw", "sqlite3")[number % 2]
        with closing(SqliteStore(path, clock=clock, library=library)) as store:
            assert [contents(store)] == seen[-1:] or not seen
            step(desk_at(store), clock)
            seen.append(contents(store))


# -- over the library of Python --------------------------------------------------------------


@pytest.mark.parametrize("name", ["with space.db", "50%25?mode=ro#x.db", "Grüße-火.db", ":memory:"])
def test_a_file_has_the_very_name_it_was_given(name: str, tmp_path: Path) -> None:
    with closing(opened(tmp_path / name)) as store:
        desk_at(store).intake.enqueue(Job("q"))
    assert (tmp_path / name).stat().st_size > 4096


def test_a_check_finds_nothing_wrong_and_names_the_library(path: Path) -> None:
    with closing(opened(path)) as store:
        found = store.check()
    assert {finding.level for finding in found} == {Level.FINE}
    assert f"SQLite {sqlite3.sqlite_version}, of sqlite3" in [each.text for each in found]


def test_its_errors_are_told_in_our_words(path: Path) -> None:
    with closing(opened(path, busy_timeout=0.01)) as store:
        desk = desk_at(store)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreLocked, match="another program holds"):
                desk.intake.enqueue(Job("q"))
            other.execute("ROLLBACK")
            placed = desk.intake.enqueue(Job("q"))
            other.execute("UPDATE job SET name = CAST(x'ff' AS TEXT)")
        with pytest.raises(StoreCorrupt, match="UTF-8"):
            store.get([placed.id])
    with pytest.raises(StoreError, match="closed"):
        store.survey()


@pytest.mark.parametrize("text", [b"hello", b"To whom it may concern\n" * 1000])
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(text: bytes, path: Path) -> None:
    path.write_bytes(text)
    with pytest.raises(StoreCorrupt, match="no SQLite file"):
        opened(path)
    assert path.read_bytes() == text


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot open"):
        opened(tmp_path)
