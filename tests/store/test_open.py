"""From a URL to a store: what is understood, and what is refused with a word of advice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.errors import BadInput, StoreUnavailable
from stoker.kernel.job import Job
from stoker.store.memory import MemoryStore
from stoker.store.open import is_there, open_store
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.driver import Sync
from stoker.store.urls import shown


def opened(url: str) -> SqliteStore:
    store = open_store(url)
    assert isinstance(store, SqliteStore)
    store.close()
    return store


def test_memory_is_a_store_of_its_own_each_time() -> None:
    first, second = open_store("memory:"), open_store("memory:")
    assert isinstance(first, MemoryStore)
    Desk(first).intake.enqueue(Job("q"))
    assert second.survey() == []


def test_a_file_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert opened("sqlite:///jobs.db").path == str(tmp_path / "jobs.db")
    assert opened("sqlite:short.db").path == str(tmp_path / "short.db")


def test_a_file_anywhere(tmp_path: Path) -> None:
    assert opened(f"sqlite:///{tmp_path}/jobs.db").path == str(tmp_path / "jobs.db")
    assert (tmp_path / "jobs.db").exists()


def test_a_file_whose_name_needs_quoting(tmp_path: Path) -> None:
    assert opened(f"sqlite:///{tmp_path}/a%20b%3F%23.db").path == str(tmp_path / "a b?#.db")


def test_a_file_is_opened_again_with_what_is_in_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    first = open_store(url)
    placed = Desk(first).intake.enqueue(Job("q", payload=b"kept"))
    first.close()
    second = open_store(url)
    assert second.get([placed.id])[placed.id].payload == b"kept"
    second.close()


@pytest.mark.parametrize(
    ("options", "sync"),
    [("", Sync.FULL), ("?sync=full", Sync.FULL), ("?sync=normal", Sync.NORMAL)],
)
def test_how_much_a_power_cut_may_take_can_be_chosen(
    tmp_path: Path, options: str, sync: Sync
) -> None:
    assert opened(f"sqlite:///{tmp_path}/jobs.db{options}").file.sync is sync


@pytest.mark.parametrize("url", ["", "jobs.db", "mysql://x/y", "sqlit:///jobs.db", ":memory:"])
def test_an_unknown_kind_of_store_is_refused_with_those_that_are_known(url: str) -> None:
    with pytest.raises(BadInput, match="begins with one of memory:, sqlite:"):
        open_store(url)


def test_a_host_is_refused_with_the_url_that_was_probably_meant() -> None:
    with pytest.raises(BadInput, match=r"write sqlite:///jobs\.db"):
        open_store("sqlite://jobs.db")


@pytest.mark.parametrize("url", ["memory:x", "memory:?sync=full", "memory:///x"])
def test_memory_takes_no_options(url: str) -> None:
    with pytest.raises(BadInput, match="just memory:"):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:",
        "sqlite:///",
        "sqlite:///jobs.db?sync=off",
        "sqlite:///jobs.db?sink=full",
        "sqlite:///jobs.db?library=pysqlite",
        "sqlite:///jobs%00.db",
    ],
)
def test_an_sqlite_url_that_cannot_be_read_is_refused_with_one_that_can(url: str) -> None:
    with pytest.raises(BadInput, match=r"write sqlite:///jobs\.db"):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sqlite:///jobs#1.db", r"in 'sqlite:///jobs#1\.db' write it as %23$"),
        ("sqlite:///jobs.db#", "write it as %23$"),
        ("redis://localhost/0?prefix=jobs#1", "write it as %23$"),
        ("postgresql://localhost/shop#1", "write it as %23$"),
        ("sqlite:///jobs?1.db", "a [?] that belongs to a name or password %3F$"),
        ("sqlite:///jobs.db?sync=", "an option is written name=value"),
        ("redis://localhost/0?prefix=", "an option is written name=value"),
        ("postgresql://localhost/shop?schema=", "an option is written name=value"),
        ("postgresql://[::1/shop", r"^cannot read 'postgresql://\[::1/shop': Invalid IPv6 URL$"),
        ("redis://[::1", "Invalid IPv6 URL$"),
    ],
)
def test_no_part_of_a_name_gets_lost(url: str, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        open_store(url)
    with pytest.raises(BadInput, match=told):
        is_there(url)


@pytest.mark.parametrize("engine", ["postgresql", "redis"])
@pytest.mark.parametrize(
    ("sign", "told"), [("#", "write it as %23"), ("?", "%3F$"), ("/", "/ in a password as %2F")]
)
def test_a_password_with_a_sign_of_urls_is_refused_and_not_told(
    engine: str, sign: str, told: str
) -> None:
    with pytest.raises(BadInput, match=told) as refused:
        open_store(f"{engine}://ann:sec{sign}ret@localhost/1")
    assert "sec" not in str(refused.value) and "ret@" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "without"),
    [
        ("redis://ann:sec@ret@db/0", "redis://ann:***@db/0"),
        ("redis://ann:sec/ret@db/0", "redis://ann:***@db/0"),
        (
            "postgresql://ann@db/x?password=secret&schema=y",
            "postgresql://ann@db/x?password=***&schema=y",
        ),
        ("sqlite:////srv/a:b@c/jobs.db", "sqlite:////srv/a:b@c/jobs.db"),
    ],
)
def test_a_password_is_not_shown(url: str, without: str) -> None:
    assert shown(url) == without


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="nowhere"):
        open_store(f"sqlite:///{tmp_path}/nowhere/jobs.db")


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [
        ("sqlite:///jobs.db?library=apsw", "apsw", "sqlite"),
        ("postgresql://localhost/jobs", "psycopg", "postgres"),
        ("redis://localhost", "redis", "redis"),
        ("redis://localhost", "hiredis", "redis"),
    ],
)
def test_a_driver_that_is_not_installed_is_named_with_its_extra(
    tmp_path: Path, url: str, driver: str, extra: str
) -> None:
    code = (
        "import sys\n"
        f"sys.modules[{driver!r}] = None\n"
        "from stoker.store.open import open_store\n"
        f"open_store({url!r})\n"
    )
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = f"StoreUnfit: {url} needs {driver}; install it with: pip install 'stoker[{extra}]'"
    assert said in ran.stderr


def test_a_driver_that_lacks_its_library_is_told() -> None:
    code = "from stoker import open_store; open_store('postgresql://localhost/jobs')"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PSYCOPG_IMPL": "none"},
    )
    assert "StoreUnfit: the driver of postgresql://localhost/jobs cannot be used: " in ran.stderr


def test_a_file_without_a_scheme_is_told_how_to_be_named() -> None:
    with pytest.raises(BadInput, match=r"if it is a file, write sqlite:///jobs\.db$"):
        open_store("jobs.db")
