"""A store, and an app on it, over the library that a kind of connection is of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker import Stoker
from stoker.store.sqlite import SqliteStore
from stoker.store.sqlite.driver import Sync
from tests.engines import VirtualClock
from tests.store.sqlite.within.connections import (
    Kind,
)


@pytest.fixture
def url(kind: Kind, path: Path) -> str:
    return f"sqlite:///{path}?sync=normal&library={kind.library}"


@pytest.fixture
def app(url: str) -> Iterator[Stoker]:
    app = Stoker(url)
    yield app
    app.close()


@pytest.fixture
def store(kind: Kind, path: Path, clock: VirtualClock) -> Iterator[SqliteStore]:
    store = SqliteStore(path, sync=Sync.NORMAL, clock=clock, library=kind.library)
    yield store
    store.close()
