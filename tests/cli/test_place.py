"""Where the jobs are: which store and which app a command means."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stoker.desk import Desk
from stoker.doors.cli import place as places
from stoker.errors import BadInput, StokerError, StoreUnavailable
from stoker.kernel.job import Job
from stoker.store.open import open_store
from tests.cli.conftest import Cli, document
from tests.servers import postgres

OTHER = "sqlite:///other.db"


def make(url: str, queue: str) -> None:
    store = open_store(url)
    Desk(store).intake.enqueue(Job(queue))
    store.close()


def test_the_option_wins_over_the_environment(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(OTHER, "there")
    monkeypatch.setenv("STOKER_STORE", "sqlite:///gone.db")
    assert document(cli("stats", "--store", OTHER, "--json"))["store"] == OTHER
    assert cli("stats").exit_code == 4


def test_an_app_brings_its_store(cli: Cli, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make("sqlite:///jobs.db", "mail")
    assert document(cli("stats", "--app", "shop:app", "--json"))["jobs"]["QUEUED"] == 1
    monkeypatch.setenv("STOKER_APP", "shop:app")
    assert document(cli("stats", "--json"))["store"] == "sqlite:///jobs.db"


def test_the_option_wins_over_the_app_too(cli: Cli, shop: Path) -> None:
    make(OTHER, "there")
    result = cli("queues", "list", "--app", "shop:app", "--store", OTHER)
    assert "there" in result.stdout
    assert not (shop / "jobs.db").exists()


def test_with_nothing_said_it_is_stoker_db_in_the_working_directory(cli: Cli, place: Path) -> None:
    refused = cli("stats")
    assert refused.exit_code == 2
    assert "no store was named: say --store sqlite:///jobs.db" in refused.stderr
    make("sqlite:///stoker.db", "mail")
    assert document(cli("stats", "--json"))["store"] == "sqlite:///stoker.db"


@pytest.mark.parametrize(
    "words",
    [
        ["jobs", "list"],
        ["queues", "purge", "mail", "--yes"],
        ["workers"],
        ["check"],
        ["top"],
        ["reply", "key", "1"],
    ],
)
def test_a_mistyped_path_does_not_become_an_empty_store(
    cli: Cli, place: Path, words: list[str]
) -> None:
    result = cli(*words, "--store", "sqlite:///typo.db")
    assert result.exit_code == 4
    assert "there is no store at sqlite:///typo.db (yet)" in result.stderr
    assert list(place.iterdir()) == []


def test_jobs_are_not_put_where_nobody_can_find_them(cli: Cli) -> None:
    result = cli("enqueue", "ping", "--store", "memory:")
    assert result.exit_code == 2
    assert "memory: is inside one process" in result.stderr


@pytest.mark.parametrize("words", [["stats"], ["stats", "--json"], ["migrate"], ["check"], ["top"]])
def test_no_command_tells_a_password(cli: Cli, words: list[str]) -> None:
    with postgres.stores().schema() as url:
        open_store(url).close()
        told = cli(*words, "--store", f"{url}&password=secret")
    assert told.exit_code == 0
    assert "password=***" in told.stdout or words == ["check"]
    assert "secret" not in told.output


def test_the_store_is_closed_in_the_end(place: Path) -> None:
    make(OTHER, "there")
    with places.opened(OTHER, None) as app:
        store = app.desk.store
    with pytest.raises(StoreUnavailable):
        Desk(store).intake.enqueue(Job("q"))


def test_an_unknown_module_tells_where_it_was_looked_for(place: Path) -> None:
    with pytest.raises(BadInput, match=f"there is no module 'nowhere' in {place}"):
        places.load("nowhere:app")


def test_an_app_that_is_not_there_tells_which_one_is(shop: Path) -> None:
    with pytest.raises(BadInput, match="shop has no Stoker called 'queue'; it has app"):
        places.load("shop:queue")


def test_a_module_that_breaks_is_told_in_one_line(place: Path) -> None:
    (place / "broken.py").write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(StokerError) as error:
        places.load("broken:app")
    assert str(error.value) == (
        "importing broken failed: ZeroDivisionError: division by zero; STOKER_DEBUG=1 shows where"
    )


def test_a_module_that_misses_another_is_not_called_missing_itself(place: Path) -> None:
    (place / "needy.py").write_text("import not_installed\n", encoding="utf-8")
    with pytest.raises(StokerError, match=r"importing needy failed: .*'not_installed'"):
        places.load("needy:app")


def test_the_working_directory_is_searched(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(shop))])
    assert places.load("shop:app").url == "sqlite:///jobs.db"
