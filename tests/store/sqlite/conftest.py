"""A SQLite store of its own for every test here, with its file at hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.store.sqlite import SqliteStore, driver
from stoker.store.sqlite.driver import Sync
from tests.engines import VirtualClock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path, clock: VirtualClock) -> Iterator[SqliteStore]:
    store = SqliteStore(path, sync=Sync.NORMAL, clock=clock)
    yield store
    store.close()


@pytest.fixture
def _checkpoints_come_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a short day has checkpoints too, and logs that begin anew."""
    monkeypatch.setattr(driver, "_CHECKPOINT_PAGES", 30)
