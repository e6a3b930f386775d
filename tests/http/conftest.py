"""The door on every engine without sockets, and servers among processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.desk import Desk
from stoker.doors.http.settings import Settings
from stoker.store.memory import MemoryStore
from tests.http.client import Api, Server, opened

Serve = Callable[..., Server]


@pytest.fixture
def api(desk: Desk) -> Iterator[Api]:
    """The door of the desk."""
    with opened(desk) as client:
        yield client


@pytest.fixture
def plain() -> Iterator[Api]:
    """A door in memory, for words in which no engine has a say."""
    with opened(Desk(MemoryStore())) as client:
        yield client


@pytest.fixture
def door(desk: Desk) -> Iterator[Callable[..., Api]]:
    """Doors of the desk with settings of their own."""
    doors = []

    def open_door(**settings: Any) -> Api:
        context = opened(desk, Settings()._replace(**settings))
        doors.append(context)
        return context.__enter__()

    yield open_door
    for context in doors:
        context.__exit__(None, None, None)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Server processes, all on one file; killed in the end if they still run."""
    begun: list[Server] = []

    def start(*options: str, address: str = "127.0.0.1:0") -> Server:
        url = f"sqlite:///{tmp_path / 'jobs.db'}?sync=normal"
        begun.append(Server(url, *options, address=address))
        return begun[-1]

    yield start
    for server in begun:
        server.kill()
