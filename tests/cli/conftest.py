"""The command line as its users meet it: words in, text and an exit code out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stoker.desk import Desk
from stoker.doors.cli.root import root
from stoker.store.open import open_store

SHOP = """
from stoker import Context, Stoker

app = Stoker("sqlite:///jobs.db")

@app.task(queue="mail")
def welcome(user: int, lang: str = "en") -> str:
    if user < 0:
        raise ConnectionError("nobody lives here")
    return f"hello {user} ({lang})"

@app.task(queue="raw", raw=True)
def swallow(data: bytes) -> int:
    return len(data)

@app.task(queue="mail", place="process")
def stamp(letters: int) -> int:
    return letters * 2

@app.task(queue="reports", repeat="every 1h")
def report() -> None:
    pass

@app.task(queue="mail")
def approve(order: str, context: Context) -> str:
    return context.wait_for_reply(f"order-{order}", timeout="10m")
"""

Cli = Callable[..., Result]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with nothing in it and nothing said by the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("STOKER_STORE", "STOKER_APP", "STOKER_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def cli(place: Path) -> Cli:
    """Run a command in that directory."""

    def run(*words: str, stdin: str | bytes | None = None) -> Result:
        runner = CliRunner(catch_exceptions=False)
        return runner.invoke(root, words, input=stdin, prog_name="stoker")

    return run


@pytest.fixture
def shop(place: Path) -> Iterator[Path]:
    """An app `shop:app`, whose jobs are in jobs.db."""
    (place / "shop.py").write_text(SHOP, encoding="utf-8")
    yield place
    sys.modules.pop("shop", None)


@pytest.fixture
def jobs(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk at the store that the environment names."""
    monkeypatch.setenv("STOKER_STORE", "sqlite:///jobs.db?sync=normal")
    store = open_store("sqlite:///jobs.db?sync=normal")
    yield Desk(store)
    store.close()


def lines(result: Result) -> list[Any]:
    """What was printed for programs, a value a line."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def document(result: Result) -> Any:
    """What was printed for programs, as one value."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
